/** Maximum size of a message: 32 MiB of content (the largest REST request), and the overhead of the encoding. Bytes. */
export const MAX_MESSAGE_BYTES = 33 * 1024 * 1024;
