/* Reads dumps on connections that are logged in: a light replica, for benchmarks/serve.py.
 *
 * usage: serve_readers COMMAND-FILE FD... [--apart]
 * Writes the command to each descriptor, and reads packets until an EOF or ERR packet has come on
 * each; with --apart each command has another sequence number, and so have the answers. Prints the bytes, the packets, the connections that
 * ended with EOF, and the seconds.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER = 1 << 18 };

struct connection {
    int fd;
    int have;               /* bytes of the packet's header, and its first byte, that have come */
    unsigned char head[5];
    long left;              /* bytes of the packet that are to be passed over */
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    static unsigned char buffer[BUFFER];
    char command[4096];
    FILE *file = fopen(argv[1], "rb");
    size_t size = file ? fread(command, 1, sizeof command, file) : 0;
    int apart = !strcmp(argv[argc - 1], "--apart");
    int count = argc - 2 - apart, open = count, ended = 0, epoll = epoll_create1(0);
    struct connection *all = calloc(count, sizeof *all);
    double begin = now();
    long bytes = 0, packets = 0;

    if (!size || !all)
        return 1;
    for (int i = 0; i < count; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &all[i]};
        all[i].fd = atoi(argv[i + 2]);
        fcntl(all[i].fd, F_SETFL, fcntl(all[i].fd, F_GETFL) & ~O_NONBLOCK);
        if (apart)
            command[3] = (char)(5 * i);
        if (write(all[i].fd, command, size) != (ssize_t)size)
            return 1;
        fcntl(all[i].fd, F_SETFL, fcntl(all[i].fd, F_GETFL) | O_NONBLOCK);
        epoll_ctl(epoll, EPOLL_CTL_ADD, all[i].fd, &event);
    }
    while (open) {
        struct epoll_event ready[64];
        int many = epoll_wait(epoll, ready, 64, 60000);
        if (many <= 0)
            return 2;
        for (int i = 0; i < many; i++) {
            struct connection *c = ready[i].data.ptr;
            long got = read(c->fd, buffer, BUFFER), at = 0;
            int over = got == 0 || (got < 0 && errno != EAGAIN);
            if (got > 0)
                bytes += got;
            while (at < got && !over) {
                if (c->have < 5) {
                    c->head[c->have++] = buffer[at++];
                    if (c->have == 5) {
                        long length = c->head[0] | c->head[1] << 8 | c->head[2] << 16;
                        packets++;
                        c->left = length - 1;
                        if ((c->head[4] == 0xFE && length < 9) || c->head[4] == 0xFF) {
                            ended += c->head[4] == 0xFE;
                            over = 1;
                        }
                    }
                }
                if (c->have == 5) {
                    long some = got - at < c->left ? got - at : c->left;
                    at += some;
                    c->left -= some;
                    if (!c->left)
                        c->have = 0;
                }
            }
            if (over) {
                epoll_ctl(epoll, EPOLL_CTL_DEL, c->fd, NULL);
                close(c->fd);
                open--;
            }
        }
    }
    printf("%ld %ld %d %.6f\n", bytes, packets, ended, now() - begin);
    return 0;
}
