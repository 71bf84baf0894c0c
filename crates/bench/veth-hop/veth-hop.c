/* The yardstick: what a hop costs over veth with batched system calls.
 *
 *     veth-hop CORE MILLISECONDS PACKETS
 *
 * Two processes on one core, joined by a veth pair. Each takes up to 32 frames of 64 bytes (60 without FCS) from an
 * AF_PACKET socket with one recvmmsg, swaps the addresses, and sends them back with one sendmmsg. PACKETS of them
 * go round all the time, so nothing is offered that does not fit and nothing is lost: the best case of this fabric,
 * not its collapse under overload. One way from process to process is a hop. Prints one line of JSON.
 *
 * The pair lives in a network namespace of its own that ends with the processes, so nothing can be left behind. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif

enum { BATCH = 32, FRAME = 60 };
/* An EtherType for local experiments (IEEE 802), so that no protocol of the kernel takes an interest. */
enum { EXPERIMENTAL = 0x88b5 };

/* Each process writes its own line. */
struct line {
    _Alignas(128) atomic_ulong frames;
};
static struct line *shared;

static void die(const char *what)
{
    fprintf(stderr, "veth-hop: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int packet_socket(const char *name)
{
    int fd = socket(AF_PACKET, SOCK_RAW, htons(EXPERIMENTAL));
    if (fd < 0)
        die("AF_PACKET socket");
    struct sockaddr_ll addr = {
        .sll_family = AF_PACKET, .sll_protocol = htons(EXPERIMENTAL), .sll_ifindex = (int)if_nametoindex(name)};
    if (addr.sll_ifindex == 0 || bind(fd, (struct sockaddr *)&addr, sizeof addr) < 0)
        die(name);
    int one = 1, room = 16 << 20;
    /* Only as far as the kernel lets us: the yardstick gets every advantage, and does without those it cannot have. */
    setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one);
    setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof one);
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room) < 0)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room) < 0)
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    return fd;
}

static void send_all(int fd, struct mmsghdr *msgs, int n)
{
    for (int sent = 0; sent < n;) {
        int k = sendmmsg(fd, msgs + sent, (unsigned)(n - sent), 0);
        if (k < 0 && errno != EINTR && errno != ENOBUFS && errno != EAGAIN)
            die("sendmmsg");
        sent += k > 0 ? k : 0;
    }
}

static void forward(int fd, atomic_ulong *count, int first)
{
    static unsigned char frames[BATCH][2048];
    struct iovec parts[BATCH];
    struct mmsghdr msgs[BATCH];
    memset(msgs, 0, sizeof msgs);
    for (int i = 0; i < BATCH; i++) {
        parts[i] = (struct iovec){frames[i], FRAME};
        msgs[i].msg_hdr.msg_iov = &parts[i];
        msgs[i].msg_hdr.msg_iovlen = 1;
        memset(frames[i], 0x02, 12);
        frames[i][12] = EXPERIMENTAL >> 8;
        frames[i][13] = EXPERIMENTAL & 0xff;
    }
    while (first > 0) {
        int n = first < BATCH ? first : BATCH;
        send_all(fd, msgs, n);
        first -= n;
    }
    for (;;) {
        int n = recvmmsg(fd, msgs, BATCH, MSG_WAITFORONE, NULL);
        if (n < 0 && errno != EINTR)
            die("recvmmsg");
        for (int i = 0; i < n; i++) {
            unsigned char dst[6];
            memcpy(dst, frames[i], 6);
            memcpy(frames[i], frames[i] + 6, 6);
            memcpy(frames[i] + 6, dst, 6);
        }
        if (n > 0) {
            send_all(fd, msgs, n);
            atomic_fetch_add_explicit(count, (unsigned long)n, memory_order_relaxed);
        }
    }
}

static void set_up(void)
{
    if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0) {
        fprintf(stderr, "veth-hop: needs root (a network namespace: %s)\n", strerror(errno));
        exit(2);
    }
    if (system("ip link add hop-a type veth peer name hop-b"
               " && for i in hop-a hop-b; do"
               " echo 1 >/proc/sys/net/ipv6/conf/$i/disable_ipv6 2>/dev/null || true;"
               " ip link set $i up || exit 1; done") != 0) {
        fprintf(stderr, "veth-hop: needs root and iproute2 (the pair could not be made)\n");
        exit(2);
    }
}

static pid_t start(const char *name, atomic_ulong *count, int first)
{
    pid_t parent = getpid(), pid = fork();
    if (pid < 0)
        die("fork");
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        exit(1);
    forward(packet_socket(name), count, first);
    return 0;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static unsigned long total(void)
{
    return atomic_load(&shared[0].frames) + atomic_load(&shared[1].frames);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: veth-hop CORE MILLISECONDS PACKETS\n");
        return 1;
    }
    int core = atoi(argv[1]), milliseconds = atoi(argv[2]), packets = atoi(argv[3]);
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((unsigned)core, &set);
    if (sched_setaffinity(0, sizeof set, &set) < 0)
        die("core");
    shared = mmap(NULL, 2 * sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        die("memory");
    set_up();
    pid_t b = start("hop-b", &shared[1].frames, 0);
    /* Frames for which no socket is open yet would be lost: b first, and a moment for it. */
    usleep(50000);
    pid_t a = start("hop-a", &shared[0].frames, packets);
    usleep(50000);
    unsigned long before = total();
    double began = seconds();
    usleep((useconds_t)milliseconds * 1000);
    unsigned long hops = total() - before;
    double took = seconds() - began;
    int early = waitpid(-1, NULL, WNOHANG) != 0;
    kill(a, SIGKILL);
    kill(b, SIGKILL);
    while (wait(NULL) > 0)
        ;
    if (early || hops == 0) {
        fprintf(stderr, "veth-hop: a forwarding process ended early, or no frame came round\n");
        return 1;
    }
    printf("{\"hops\": %lu, \"seconds\": %.6f, \"hop_ns\": %.1f, \"packets\": %d}\n", hops, took, took * 1e9 / (double)hops,
           packets);
    return 0;
}
