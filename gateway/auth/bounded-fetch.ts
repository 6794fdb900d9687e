/** Maximum size of a response. Documents, tokens and key sets have a few kilobytes. Bytes. */
const MAX_BYTES = 1024 * 1024;

/** A response was larger than the maximum. */
export class AnswerTooLarge extends Error {
  override readonly name = 'AnswerTooLarge';

  constructor() {
    super(`the response has more than ${MAX_BYTES} bytes`);
  }
}

/**
 * As `fetch`, but reads at most 1 MiB of the decompressed body and then closes the connection. A time limit alone
 * would let a fast server fill the memory.
 *
 * @throws as `fetch`; reading the body throws {@link AnswerTooLarge}.
 */
export async function boundedFetch(url: string, init: RequestInit): Promise<Response> {
  const answer = await fetch(url, init);
  if (!answer.body) return answer;
  const { status, statusText, headers } = answer;
  return new Response(answer.body.pipeThrough(bound()), { status, statusText, headers });
}

function bound(): TransformStream<Uint8Array, Uint8Array> {
  let bytes = 0;
  return new TransformStream({
    transform(chunk, controller) {
      bytes += chunk.byteLength;
      if (bytes > MAX_BYTES) throw new AnswerTooLarge();
      controller.enqueue(chunk);
    },
  });
}
