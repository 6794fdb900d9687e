/**
 * The largest message, in bytes: 32 MiB of content (the largest request that REST takes) and room
 * for what the encoding adds.
 */
export const MAX_MESSAGE_BYTES = 33 * 1024 * 1024;
