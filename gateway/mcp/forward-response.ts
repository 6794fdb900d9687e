import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import type { ReadableStream } from 'node:stream/web';
import { drained } from '../http/large-response.ts';
import { type ReserveResponse, send } from '../http/respond.ts';

/** Headers of the library's responses that the client gets. */
const KEPT = ['allow', 'x-accel-buffering'];

/**
 * Sends a response of the MCP library to the client: JSON as a whole, a stream piece by piece.
 *
 * @param o.reserve reserves memory for a JSON response.
 * @throws HttpError when `reserve` cannot reserve the memory.
 */
export async function forwardResponse(
  response: Response,
  o: {
    req: IncomingMessage;
    res: ServerResponse;
    headers: Readonly<Record<string, string>>;
    reserve: ReserveResponse;
  },
): Promise<void> {
  const { req, res } = o;
  const headers: Record<string, string> = { ...o.headers };
  for (const name of KEPT) {
    const value = response.headers.get(name);
    if (value !== null) headers[name] = value;
  }
  const contentType = response.headers.get('content-type');
  if (!response.body || contentType === null) {
    return send(req, res, { status: response.status, headers });
  }
  const { status } = response;
  if (!contentType.startsWith('text/event-stream')) {
    const body = { contentType: 'application/json', text: await response.text() };
    return send(req, res, { status, headers, body }, o.reserve);
  }
  res.statusCode = status;
  for (const [name, value] of Object.entries(headers)) res.setHeader(name, value);
  res.setHeader('Content-Type', 'text/event-stream');
  res.flushHeaders();
  // A client that disconnects during the stream is not an error.
  await sendStream(response.body, res).catch(() => res.destroy());
}

/**
 * Sends a stream. It does not use `pipeline`, which adds seven listeners to the response. With four other listeners of
 * the gateway, Node would warn of a listener leak.
 */
async function sendStream(body: ReadableStream, res: ServerResponse): Promise<void> {
  const source = Readable.fromWeb(body);
  const end = (): void => void source.destroy();
  if (res.closed) return end();
  res.once('close', end);
  for await (const piece of source) if (!res.write(piece)) await drained(res);
  res.end();
}
