import java.util.Base64;
import java.util.Scanner;
import org.apache.kafka.common.security.scram.ScramCredential;
import org.apache.kafka.common.security.scram.internals.ScramFormatter;
import org.apache.kafka.common.security.scram.internals.ScramMechanism;
import org.apache.kafka.common.security.scram.internals.ScramMessages;

/** Reads lines of base64 words, mechanism, user, password, salt, iterations, both nonces; prints what Kafka computes. */
public class Scram {
    public static void main(String[] args) throws Exception {
        Base64.Decoder decoder = Base64.getDecoder();
        Base64.Encoder encoder = Base64.getEncoder();
        try (Scanner lines = new Scanner(System.in, "UTF-8")) {
            while (lines.hasNextLine()) {
                String[] words = lines.nextLine().split(" ");
                ScramFormatter formatter = new ScramFormatter(ScramMechanism.forMechanismName(words[0]));
                String user = new String(decoder.decode(words[1]), "UTF-8");
                String password = words[2].equals("-") ? "" : new String(decoder.decode(words[2]), "UTF-8");
                byte[] salt = decoder.decode(words[3]);
                int iterations = Integer.parseInt(words[4]);
                byte[] salted = formatter.saltedPassword(password, salt, iterations);
                ScramCredential credential = formatter.generateCredential(salt, salted, iterations);
                ScramMessages.ClientFirstMessage first =
                    new ScramMessages.ClientFirstMessage(ScramFormatter.saslName(user), words[5], java.util.Map.of());
                ScramMessages.ServerFirstMessage challenge =
                    new ScramMessages.ServerFirstMessage(words[5], words[6], salt, iterations);
                ScramMessages.ClientFinalMessage last =
                    new ScramMessages.ClientFinalMessage("n,,".getBytes("UTF-8"), challenge.nonce());
                byte[] proof = formatter.clientProof(salted, first, challenge, last);
                byte[] signature = formatter.serverSignature(credential.serverKey(), first, challenge, last);
                System.out.println(String.join(" ",
                    encoder.encodeToString(credential.storedKey()),
                    encoder.encodeToString(credential.serverKey()),
                    encoder.encodeToString(first.toBytes()),
                    encoder.encodeToString(challenge.toBytes()),
                    encoder.encodeToString(proof),
                    encoder.encodeToString(signature)));
            }
        }
    }
}
