import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.jar.JarFile;
import net.bytebuddy.jar.asm.ClassReader;
import net.bytebuddy.jar.asm.ClassVisitor;
import net.bytebuddy.jar.asm.ClassWriter;
import net.bytebuddy.jar.asm.MethodVisitor;
import net.bytebuddy.jar.asm.Opcodes;

/**
 * Writes copies of those classes of Kafka's test harness that create brokers: the copies create ours instead.
 *
 * <p>{@code java ReplaceConstructors KAFKA_TEST_JAR FOLDER}. With FOLDER before the jar on the class path, every broker of the
 * harness is a {@code BrokerProcess}. Nothing else is changed.
 */
public final class ReplaceConstructors {
    private static final String[] HARNESS = {"kafka/utils/TestUtils$", "kafka/server/ZooKeeperQuorumImplementation"};
    private static final Map<String, String> REPLACEMENTS = Map.of("kafka/server/KafkaServer", "kafka/server/BrokerProcess");

    private ReplaceConstructors() { }

    public static void main(String[] arguments) throws IOException {
        try (JarFile jar = new JarFile(arguments[0])) {
            for (String name : HARNESS) {
                Path target = Path.of(arguments[1], name + ".class");
                Files.createDirectories(target.getParent());
                try (InputStream original = jar.getInputStream(jar.getEntry(name + ".class"))) {
                    Files.write(target, replaced(new ClassReader(original)));
                }
            }
        }
    }

    private static byte[] replaced(ClassReader original) {
        ClassWriter copy = new ClassWriter(0);
        original.accept(new ClassVisitor(Opcodes.ASM9, copy) {
            @Override
            public MethodVisitor visitMethod(int access, String name, String types, String generic, String[] thrown) {
                return new Method(super.visitMethod(access, name, types, generic, thrown));
            }
        }, 0);
        return copy.toByteArray();
    }

    /** Copies a method; what it creates with {@code new} is of the other class. */
    private static final class Method extends MethodVisitor {
        Method(MethodVisitor copy) {
            super(Opcodes.ASM9, copy);
        }

        @Override
        public void visitTypeInsn(int instruction, String type) {
            super.visitTypeInsn(instruction, instruction == Opcodes.NEW ? REPLACEMENTS.getOrDefault(type, type) : type);
        }

        @Override
        public void visitMethodInsn(int instruction, String owner, String name, String types, boolean ofInterface) {
            boolean constructs = instruction == Opcodes.INVOKESPECIAL && name.equals("<init>");
            String called = constructs ? REPLACEMENTS.getOrDefault(owner, owner) : owner;
            super.visitMethodInsn(instruction, called, name, types, ofInterface);
        }
    }
}
