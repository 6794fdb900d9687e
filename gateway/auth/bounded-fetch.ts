/** Maximum size of a response. Client metadata, tokens and key sets have a few kilobytes. Bytes. */
const MAX_BYTES = 1024 * 1024;

/** A response was larger than the maximum. */
export class ResponseTooLarge extends Error {
  override readonly name = 'ResponseTooLarge';

  constructor() {
    super(`the response has more than ${MAX_BYTES} bytes`);
  }
}

/**
 * Does the same as `fetch`, but reads at most 1 MiB of the decompressed body and then closes the connection. A time
 * limit alone would not prevent a fast server from filling the memory. The response has the status, the headers and the
 * body, but not `url` and `redirected`.
 *
 * @throws as `fetch`; reading the body throws {@link ResponseTooLarge}.
 */
export async function boundedFetch(url: string, init: RequestInit): Promise<Response> {
  const response = await fetch(url, init);
  if (!response.body) return response;
  const { status, statusText, headers } = response;
  return new Response(response.body.pipeThrough(limitBytes()), { status, statusText, headers });
}

function limitBytes(): TransformStream<Uint8Array, Uint8Array> {
  let bytes = 0;
  return new TransformStream({
    transform(chunk, controller) {
      bytes += chunk.byteLength;
      if (bytes > MAX_BYTES) throw new ResponseTooLarge();
      controller.enqueue(chunk);
    },
  });
}
