/* insn.c - a plugin of qemu-user that counts instructions: qemu-aarch64 -plugin insn.so PROGRAM; the last line on stderr is the number. The
 * declarations are those of qemu-plugin.h, so that it need not be there. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stddef.h>

typedef uint64_t id;
struct qemu_plugin_tb;
void   qemu_plugin_register_vcpu_tb_trans_cb(id, void (*)(id, struct qemu_plugin_tb *));
void   qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, int op, void *at, uint64_t add);
void   qemu_plugin_register_atexit_cb(id, void (*)(id, void *), void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

static uint64_t count;

static void translated(id i, struct qemu_plugin_tb *tb) {
    (void)i;
    qemu_plugin_register_vcpu_tb_exec_inline(tb, 0, &count, qemu_plugin_tb_n_insns(tb));
}

static void ended(id i, void *p) {
    (void)i, (void)p;
    fprintf(stderr, "instructions %" PRIu64 "\n", count);
}

__attribute__((visibility("default"))) int qemu_plugin_install(id i, const void *info, int argc, char **argv) {
    (void)info, (void)argc, (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(i, translated);
    qemu_plugin_register_atexit_cb(i, ended, NULL);
    return 0;
}
