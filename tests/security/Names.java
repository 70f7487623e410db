import java.util.Base64;
import java.util.Scanner;
import javax.security.auth.x500.X500Principal;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/** Reads lines of base64 words: a distinguished name in DER, or rules and a name; prints what Java and Kafka make of it. */
public class Names {
    public static void main(String[] args) throws Exception {
        Base64.Decoder decoder = Base64.getDecoder();
        Base64.Encoder encoder = Base64.getEncoder();
        try (Scanner lines = new Scanner(System.in, "UTF-8")) {
            while (lines.hasNextLine()) {
                String[] words = lines.nextLine().split(" ");
                String answer;
                if (words.length == 1) {
                    answer = new X500Principal(decoder.decode(words[0])).getName();
                } else {
                    try {
                        String rules = new String(decoder.decode(words[0]), "UTF-8");
                        answer = SslPrincipalMapper.fromRules(rules).getName(new String(decoder.decode(words[1]), "UTF-8"));
                    } catch (SslPrincipalMapper.NoMatchingRule e) {
                        answer = "none applies";
                    } catch (IllegalArgumentException e) {
                        answer = "malformed";
                    }
                }
                System.out.println(encoder.encodeToString(answer.getBytes("UTF-8")));
            }
        }
    }
}
