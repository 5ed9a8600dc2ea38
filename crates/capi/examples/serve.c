/* A server of the files below a directory, over RDMA, in C. Its protocol is that of the web server in Rust
 * (crates/gannet/examples/web.rs), so that `web fetch` reads from it:
 *
 *     HEAD /path                      200 LENGTH
 *     GET /path KEY OFFSET LENGTH     the file goes to that memory of the client; 200 LENGTH comes behind it
 *
 * usage: serve DIRECTORY ADDRESS      prints the port that it listens at
 *
 * cc serve.c -o serve $(pkg-config --cflags --libs gannet)
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <gannet.h>

#define MESSAGE_MAX 4096

static int root;

static void die(const char *what, const char *why)
{
    fprintf(stderr, "serve: %s: %s\n", what, why);
    exit(1);
}

/* Tells the client; false when it is gone. */
static bool say(const gannet_connection *connection, const char *format, ...)
{
    char text[MESSAGE_MAX];
    va_list values;
    va_start(values, format);
    int len = vsnprintf(text, sizeof text, format, values);
    va_end(values);
    return len >= 0 && gannet_send(connection, text, len < MESSAGE_MAX ? (size_t)len : MESSAGE_MAX - 1) == 0;
}

/* Opens a regular file below the directory; -1 with errno. */
static int open_below(const char *path, uint64_t *len)
{
    struct open_how how = {
        .flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
    };
    while (*path == '/')
        path++;
    int file = (int)syscall(SYS_openat2, root, path, &how, sizeof how);
    struct stat about;
    if (file < 0)
        return -1;
    if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) {
        close(file);
        errno = EACCES;
        return -1;
    }
    *len = (uint64_t)about.st_size;
    return file;
}

/* Answers one request; false when the client is gone. */
static bool answer(const gannet_connection *connection, char *request)
{
    char *rest = NULL;
    char *verb = strtok_r(request, " ", &rest), *path = strtok_r(NULL, " ", &rest);
    gannet_segment target = {0};
    bool is_get = verb && strcmp(verb, "GET") == 0;
    if (!verb || !path || (!is_get && strcmp(verb, "HEAD") != 0))
        return say(connection, "400 no request");
    if (is_get && (!rest || sscanf(rest, "%" SCNu32 " %" SCNu64 " %" SCNu64, &target.key, &target.offset, &target.len) != 3))
        return say(connection, "400 no segment");
    uint64_t len = 0;
    int file = open_below(path, &len);
    if (file < 0)
        return say(connection, errno == ENOENT || errno == ENOTDIR ? "404 not found" : "403 not for you");
    bool told;
    if (is_get && len > target.len)
        told = say(connection, "413 %" PRIu64, len);
    else if (is_get && gannet_sendfile(connection, file, 0, len, &target, 1, NULL) != 0)
        told = say(connection, "500 %s", gannet_error());
    else
        told = say(connection, "200 %" PRIu64, len);
    close(file);
    return told;
}

/* Serves one client until it goes away. */
static void *serve(void *argument)
{
    gannet_connection *connection = argument;
    char request[MESSAGE_MAX + 1];
    ssize_t len;
    while ((len = gannet_receive(connection, request, MESSAGE_MAX)) >= 0) {
        request[len < MESSAGE_MAX ? len : MESSAGE_MAX] = '\0';
        if (!answer(connection, request))
            break;
    }
    gannet_connection_free(connection);
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        die("usage", "serve DIRECTORY ADDRESS");
    root = open(argv[1], O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        die(argv[1], strerror(errno));
    gannet_options options;
    gannet_options_init(&options);
    options.message_max = MESSAGE_MAX;
    gannet_adapter *adapter = gannet_adapter_start(&options);
    gannet_listener *listener = adapter ? gannet_listen(adapter, argv[2]) : NULL;
    if (!listener)
        die(argv[2], gannet_error());
    printf("%d\n", gannet_listener_port(listener));
    fflush(stdout);
    for (;;) {
        gannet_connection *connection = gannet_accept(listener);
        if (!connection)
            die("accept", gannet_error());
        pthread_t thread;
        int error = pthread_create(&thread, NULL, serve, connection);
        if (error) {
            fprintf(stderr, "serve: no thread for a client: %s\n", strerror(error));
            gannet_connection_free(connection);
            continue;
        }
        pthread_detach(thread);
    }
}
