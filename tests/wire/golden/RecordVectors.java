// Prints how Apache Kafka's own classes encode the records of internal topics: "NAME VERSION HEX" per line.
// Every field is set as tests/wire/samples.py sets it: numbers 3, texts "text", one element in every array.
//
//   java -cp 'JARS/*' RecordVectors.java CLASS ... > internal_records.txt
//
// JARS is a folder with Apache Kafka 4.3.1; the classes are those of the packages
// org.apache.kafka.coordinator.{group,transaction,share}.generated.

import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;

public class RecordVectors {
    public static void main(String[] names) throws Exception {
        for (String name : names) {
            Class<?> kind = Class.forName(name);
            short lowest = kind.getField("LOWEST_SUPPORTED_VERSION").getShort(null);
            short highest = kind.getField("HIGHEST_SUPPORTED_VERSION").getShort(null);
            for (short version = lowest; version <= highest; version++) {
                try {
                    var buffer = MessageUtil.toByteBufferAccessor((Message) filled(kind), version).buffer();
                    StringBuilder hex = new StringBuilder();
                    while (buffer.hasRemaining()) hex.append(String.format("%02x", buffer.get()));
                    System.out.println(kind.getSimpleName() + " " + version + " " + hex);
                } catch (UnsupportedVersionException e) {
                    // A field that this version cannot carry is set; newer versions cover it.
                }
            }
        }
    }

    private static Object filled(Class<?> kind) throws Exception {
        Object made = kind.getConstructor().newInstance();
        for (Method method : kind.getMethods())
            if (method.getName().startsWith("set") && method.getParameterCount() == 1)
                method.invoke(made, value(method.getParameterTypes()[0], method.getGenericParameterTypes()[0]));
        return made;
    }

    private static Object value(Class<?> type, Type generic) throws Exception {
        if (type == byte.class) return (byte) 3;
        if (type == short.class) return (short) 3;
        if (type == int.class || type == Integer.class) return 3;
        if (type == long.class || type == Long.class) return 3L;
        if (type == boolean.class) return true;
        if (type == String.class) return "text";
        if (type == byte[].class) return "bytes".getBytes();
        if (type == Uuid.class) return new Uuid(0x0001020304050607L, 0x08090a0b0c0d0e0fL);
        if (type == List.class) {
            Class<?> element = (Class<?>) ((ParameterizedType) generic).getActualTypeArguments()[0];
            return List.of(value(element, element));
        }
        return filled(type);
    }
}
