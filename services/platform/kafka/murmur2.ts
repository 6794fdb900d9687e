const SEED = 0x9747b28c;
const M = 0x5bd1e995;

/**
 * Returns the MurmurHash2 of the UTF-8 bytes (32 bits, never negative). Kafka's own clients hash keys in the same way.
 * The hash decides to which partition a key belongs, so it must never change.
 */
export function murmur2(text: string): number {
  const bytes = Buffer.from(text, 'utf8');
  const whole = bytes.length & ~3;
  let h = SEED ^ bytes.length;
  for (let i = 0; i < whole; i += 4) {
    let k = Math.imul(bytes.readInt32LE(i), M);
    k ^= k >>> 24;
    h = Math.imul(h, M) ^ Math.imul(k, M);
  }
  const rest = bytes.length - whole;
  if (rest > 0) {
    h ^= bytes.readUIntLE(whole, rest);
    h = Math.imul(h, M);
  }
  h ^= h >>> 13;
  h = Math.imul(h, M);
  h ^= h >>> 15;
  return h & 0x7fffffff;
}
