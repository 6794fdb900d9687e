/** The largest message, in bytes: 32 MiB of content (the largest REST request) plus the overhead of the encoding. */
export const MAX_MESSAGE_BYTES = 33 * 1024 * 1024;
