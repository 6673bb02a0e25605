/* Active messages over Wiglaf. SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A message names a handler, which runs where it arrives, inside wiglaf_poll
 * or wiglaf_wait. `wiglaf run --mpi none -- PROGRAM` starts a job. Link with
 * -lwiglaf. A handle belongs to one thread at a time.
 *
 * Calls that return int answer 0 or more, or one of the WIGLAF_E codes;
 * wiglaf_error() then says in one sentence what happened.
 */
#ifndef WIGLAF_H
#define WIGLAF_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WIGLAF_E_INVALID (-1) /* an argument cannot be meant */
#define WIGLAF_E_GONE (-2)    /* the rank has ended */

typedef struct wiglaf wiglaf;

/* Runs when a message arrives; `payload` is valid until it returns. It may
 * call wiglaf_send, but neither wiglaf_poll, wiglaf_wait nor wiglaf_close. */
typedef void (*wiglaf_handler)(wiglaf *w, int source, uint64_t data,
                               const void *payload, size_t len, void *user);

/* Joins the job that the environment describes; NULL on failure. */
wiglaf *wiglaf_open(void);

/* Waits until what was sent has arrived, or its receivers have ended, says
 * good-bye and frees `w`. */
void wiglaf_close(wiglaf *w);

int wiglaf_rank(const wiglaf *w);
int wiglaf_size(const wiglaf *w);

/* Runs `run` for every message to `handler` from now on. */
int wiglaf_on(wiglaf *w, uint64_t handler, wiglaf_handler run, void *user);

/* Sends `len` bytes and the number `data` to `handler` of rank `to`. The
 * payload may be used again when the call returns. */
int wiglaf_send(wiglaf *w, int to, uint64_t handler, uint64_t data,
                const void *payload, size_t len);

/* Runs the handlers of what has arrived; answers how many messages. */
int wiglaf_poll(wiglaf *w);

/* Like wiglaf_poll, but waits up to `timeout_ms` milliseconds for a message. */
int wiglaf_wait(wiglaf *w, int timeout_ms);

/* The next rank that was found to have ended, each once, or WIGLAF_E_GONE:
 * who waits for a message of its will wait in vain. */
int wiglaf_lost(wiglaf *w);

/* Why the last call of this thread failed. */
const char *wiglaf_error(void);

#ifdef __cplusplus
}
#endif
#endif
