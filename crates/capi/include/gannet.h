#ifndef GANNET_H
#define GANNET_H

/* Written by cbindgen from crates/capi/src: change that, then GANNET_GENERATE=1 cargo test -p gannet-capi. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 How the bytes of files get into a peer's memory.
 */
typedef enum {
  /*
   Chosen by adapter and length.
   */
  GANNET_AUTOMATIC,
  /*
   Copied to memory that stays registered.
   */
  GANNET_STATIC,
  /*
   Read to memory that is registered for this use, one piece after the other.
   */
  GANNET_DYNAMIC,
  /*
   The same, with several pieces under way.
   */
  GANNET_PIPELINED,
  /*
   The file itself is the source.
   */
  GANNET_SENDFILE,
} gannet_engine;

/*
 The access that a peer has to memory.
 */
typedef enum {
  /*
   RDMA Read from it.
   */
  GANNET_REMOTE_READ,
  /*
   RDMA Write to it, as gannet_sendfile of the peer needs.
   */
  GANNET_REMOTE_WRITE,
  /*
   Both.
   */
  GANNET_REMOTE_READ_WRITE,
} gannet_access;

/*
 The software RNIC, an RDMA device, or both, with a thread of its own.
 */
typedef struct gannet_adapter gannet_adapter;

/*
 A connection to one peer.
 */
typedef struct gannet_connection gannet_connection;

/*
 A listening address, from which gannet_accept takes connections.
 */
typedef struct gannet_listener gannet_listener;

/*
 Memory that is registered for a connection's peer.
 */
typedef struct gannet_memory gannet_memory;

/*
 How an adapter and its connections work. Set by gannet_options_init, then changed.
 */
typedef struct {
  /*
   The provider of the connections: one of gannet_provider.
   */
  int provider;
  /*
   Asks for checksums on every connection of the software RNIC.
   */
  bool crc;
  /*
   An RDMA device does not pin registered memory, but fetches its pages when it needs them. A device without
   on-demand paging is refused.
   */
  bool on_demand_paging;
  /*
   How files are sent: one of gannet_engine.
   */
  int engine;
  /*
   Messages that a peer may have sent before the program has taken the first of them.
   */
  uintptr_t receives;
  /*
   Bytes of the longest message.
   */
  uintptr_t message_max;
  /*
   Pieces of a file that may be under way at a time.
   */
  uintptr_t pipes;
  /*
   Bytes of such a piece.
   */
  uintptr_t pipe_len;
  /*
   Bytes of memory that the pieces of a connection may take together.
   */
  uintptr_t memory_max;
} gannet_options;

/*
 The address of registered memory, which the program sends to its peer in a message.
 */
typedef struct {
  /*
   The key (STag).
   */
  uint32_t key;
  /*
   The first byte, in the offsets of that key.
   */
  uint64_t offset;
  /*
   Length in bytes.
   */
  uint64_t len;
} gannet_segment;

/*
 The totals of a connection's calls of gannet_sendfile so far.
 */
typedef struct {
  /*
   Bytes sent.
   */
  uint64_t bytes;
  /*
   Bytes that were copied to memory of this process on their way.
   */
  uint64_t copied_bytes;
  /*
   Registrations made.
   */
  uint64_t registrations;
  /*
   Work requests posted.
   */
  uint64_t work;
  /*
   The most memory that pieces under way took together, in bytes.
   */
  uint64_t memory_peak;
} gannet_counts;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Starts an adapter; options may be null. Null if there is no thread, or the provider needs an RDMA device and there
 is none.

 # Safety
 `options` is null or was set by gannet_options_init.
 */
gannet_adapter *gannet_adapter_start(const gannet_options *options);

/*
 Frees an adapter; its listeners and connections go on.

 # Safety
 `adapter` is null or of gannet_adapter_start, and not used any more.
 */
void gannet_adapter_free(gannet_adapter *adapter);

/*
 Listens at an address, as `127.0.0.1:0` or `[::]:4000`; port 0 picks a free one.

 # Safety
 `adapter` is of gannet_adapter_start, `address` a string that ends with a NUL.
 */
gannet_listener *gannet_listen(const gannet_adapter *adapter, const char *address);

/*
 The port that a listener listens at; -1 for a null pointer.

 # Safety
 `listener` is null or of gannet_listen.
 */
int gannet_listener_port(const gannet_listener *listener);

/*
 Waits for the next peer that connects; null if the listener has failed, or gannet_listener_shutdown ended it.

 # Safety
 `listener` is of gannet_listen.
 */
gannet_connection *gannet_accept(const gannet_listener *listener);

/*
 The same, for so many milliseconds at most: then null, and gannet_timed_out is true.

 # Safety
 `listener` is of gannet_listen.
 */
gannet_connection *gannet_accept_within(const gannet_listener *listener, uint32_t milliseconds);

/*
 Ends a listener: it accepts no more peers, and calls of gannet_accept in other threads return null. 0, or -1. The
 listener must still be freed.

 # Safety
 `listener` is of gannet_listen.
 */
int gannet_listener_shutdown(const gannet_listener *listener);

/*
 Ends a listener, and frees it; 0, or -1 while a call in another thread uses it. Then it is not freed: end the call
 by gannet_listener_shutdown, wait for its thread, and free the listener again.

 # Safety
 `listener` is null or of gannet_listen, and no call begins to use it any more.
 */
int gannet_listener_free(gannet_listener *listener);

/*
 Connects to an address, `host:port`. The connecting side sends the first message.

 # Safety
 `adapter` is of gannet_adapter_start, `address` a string that ends with a NUL.
 */
gannet_connection *gannet_connect(const gannet_adapter *adapter, const char *address);

/*
 Ends a connection, and the calls that wait for it in other threads. Messages that were sent leave before. 0, or -1.
 The connection must still be freed.

 # Safety
 `connection` is of gannet_connect or gannet_accept.
 */
int gannet_connection_shutdown(const gannet_connection *connection);

/*
 Ends a connection, and frees it; 0, or -1 while a call in another thread uses it. Then it is not freed: end the call
 by gannet_connection_shutdown, wait for its thread, and free the connection again. Memory that is registered with it
 keeps it until gannet_deregister.

 # Safety
 `connection` is null or of gannet_connect or gannet_accept, and no call begins to use it any more.
 */
int gannet_connection_free(gannet_connection *connection);

/*
 Sends a message; 0, or -1. Does not wait for the peer.

 # Safety
 `connection` is of gannet_connect or gannet_accept, `message` has `len` bytes.
 */
int gannet_send(const gannet_connection *connection, const void *message, uintptr_t len);

/*
 Waits for the next message, and copies it to `message`; its bytes, or -1 when the connection has ended. A message
 that is longer than `capacity` is cut, and its whole length returned.

 # Safety
 `connection` is of gannet_connect or gannet_accept, `message` has `capacity` bytes.
 */
intptr_t gannet_receive(const gannet_connection *connection,
                        void *message,
                        uintptr_t capacity);

/*
 The same, for so many milliseconds at most: then -1, and gannet_timed_out is true. No message is lost.

 # Safety
 As gannet_receive.
 */
intptr_t gannet_receive_within(const gannet_connection *connection,
                               void *message,
                               uintptr_t capacity,
                               uint32_t milliseconds);

/*
 Sends `len` bytes of an open file from `offset` on to segments of the peer's memory, and waits until they have left;
 0, or -1. The file need be open for reading only, and is not read into memory where the engine can do without.
 A message sent after it arrives after it. Bytes behind the end of the file come as zeros. `counts` may be null.

 # Safety
 `connection` is of gannet_connect or gannet_accept, `file` is open, `segments` has `segment_count` of them, `counts`
 is null or has room.
 */
int gannet_sendfile(const gannet_connection *connection,
                    int file,
                    uint64_t offset,
                    uintptr_t len,
                    const gannet_segment *segments,
                    uintptr_t segment_count,
                    gannet_counts *counts);

/*
 Why the last call of this thread that failed did so. The text is there until the next one fails.
 */
const char *gannet_error(void);

/*
 True if the last call of this thread that failed did so because its time was over.
 */
bool gannet_timed_out(void);

/*
 Registers memory of the program for a connection's peer, without copying it; `access` is one of gannet_access. Until
 gannet_deregister the program neither writes nor frees nor unmaps it. Registrations are not cached: a key ends with
 gannet_deregister.

 # Safety
 `connection` is of gannet_connect or gannet_accept, `memory` has `len` bytes, and the program keeps to the above.
 */
gannet_memory *gannet_register(const gannet_connection *connection,
                               void *memory,
                               uintptr_t len,
                               int access);

/*
 Where the peer finds registered memory; 0, or -1.

 # Safety
 `memory` is of gannet_register, `segment` has room.
 */
int gannet_segment_of(const gannet_memory *memory, gannet_segment *segment);

/*
 Revokes the key of registered memory, and waits until the memory is the program's again; 0, or -1: then a peer may
 reach it for as long as this process lives.

 # Safety
 `memory` is of gannet_register, and not used any more.
 */
int gannet_deregister(gannet_memory *memory);

/*
 Sets options to their defaults.

 # Safety
 `options` is null or has room.
 */
void gannet_options_init(gannet_options *options);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* GANNET_H */
