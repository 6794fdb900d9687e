/** Documents, tokens and key sets have some kilobytes. */
const MAX_BYTES = 1024 * 1024;

/** A server that we ask answered with more than anybody needs. */
export class AnswerTooLarge extends Error {
  override readonly name = 'AnswerTooLarge';

  constructor() {
    super(`the answer has more than ${MAX_BYTES} bytes`);
  }
}

/**
 * As `fetch`, but of a body, as it is after decompression, at most 1 MiB is read: then the connection
 * is given up. A time limit alone would let a fast server fill the memory.
 *
 * @throws as `fetch`; whoever reads the body is told of {@link AnswerTooLarge}.
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
