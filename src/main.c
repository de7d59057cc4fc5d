/* ===== [main] from the command line to the exit code =====
 * Reads the options, runs one action and returns the exit code.
 * Public: main. */

/* Notes on stderr before the action runs. */
static void main__remarks(const config *c) {
    const int cpus = host_cpus();
    int       threads = c->action == ACT_BENCH ? 0 : c->fwd.n_threads;
    str       idle = {0};
    for (int i = 0; i < c->idle.n; i++) {
        str_put(&idle, i == 0 ? "" : i + 1 < c->idle.n ? ", " : " and ");
        str_put(&idle, c->idle.v[i]);
    }
    if (idle.n)
        log_warn("%s change%s nothing here (taken because llama.cpp has %s)", idle.p, c->idle.n == 1 ? "s" : "",
                 c->idle.n == 1 ? "it" : "them");
    for (int i = 0; i + 1 < c->again.n; i += 2) {
        const bytes was = cli_typed(c->again.v[i]), is = cli_typed(c->again.v[i + 1]);
        if (bytes_eq(was, is)) log_warn("%.*s is given more than once: the last one counts", (int)is.n, is.p);
        else log_warn("%.*s replaces %.*s: the last one counts", (int)is.n, is.p, (int)was.n, was.p);
    }
    for (int i = 0; c->action == ACT_BENCH && i < c->bench.threads.n; i++)
        if (c->bench.threads.v[i] > threads) threads = c->bench.threads.v[i];
    if (threads > cpus)
        log_warn("--threads: %d threads share %d CPU%s and run slower than %d would", threads, cpus, cpus == 1 ? "" : "s", cpus);
    str_drop(&idle);
}

/* How this run uses memory nodes; before its first team of threads. What was asked for and cannot be is said. */
static void main__nodes(const char *how) {
    static const char *const names[] = {"auto", "off", "interleave", "distribute"};
    host_nodes on;
    err_t      e = {0};
    int        numa = HOST_NUMA_AUTO;
    while (strcmp(how, names[numa]) != 0) numa++;
    const bool found = numa != HOST_NUMA_OFF && host_nodes_here(&on, &e), many = found && on.n > 1;
    if (!found && e.code && (numa != HOST_NUMA_AUTO || getenv("LLMRUN_TOPOLOGY")))
        log_warn("memory nodes are not used: %s", e.text);
    if (found && !many && numa != HOST_NUMA_AUTO) log_warn("--numa %s changes nothing: this process has one memory node", how);
    pool_numa(many ? (host_numa)numa : HOST_NUMA_OFF);
    if (many && !on.made_up && !host_interleave(&on)) log_info("memory      not interleaved: %s", strerror(errno));
}

static int main__run(int argc, char **argv) {
    config c = cli_defaults();
    err_t  e = {0};
    double t_start = clock_now();
    act_streams();
    act_signals();
    bool ok = cli_environment(&c, &e) && cli_parse(&c, argc > 0 ? argc - 1 : 0, argv + 1, &e) && act_finish(&c, &e);
    if (ok) {
        g_log_level = c.log_level;
        main__remarks(&c);
        main__nodes(c.numa);
        if (!k_init(c.cpu)) err_set(&e, EXIT_INPUT, "--cpu: %s does not run on this machine (--list cpu)", c.cpu);
        else if (c.blas && !ops_blas_open(&e)) ok = false;
        else act_run(&c, t_start, &e);
    }
    cli_drop(&c);
    if (e.code) log_error("%s", e.text);
    else if (g_interrupt && act_lost[0]) fputs(act_lost, stderr);
    return g_interrupt ? 128 + g_interrupt : e.code;
}

#ifndef LLMRUN_NO_MAIN
int main(int argc, char **argv) { return main__run(argc, argv); }
#endif
