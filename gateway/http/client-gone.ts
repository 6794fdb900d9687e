import type { ServerResponse } from 'node:http';

/** The client disconnected before its request was complete. Nobody can receive a response. */
export class ClientGone extends Error {
  override readonly name = 'ClientGone';
}

const GONE = new ClientGone('the connection is closed');

/** Signals that the work for a request ends, because the response is ready or the client has disconnected. */
export interface WorkEnd {
  readonly signal: AbortSignal;
  /** Must be called when the response is ready. */
  responseReady(): void;
}

/** Creates the signal for one request. */
export function endOf(res: ServerResponse): WorkEnd {
  const end = new AbortController();
  // All signals share one error, because creating an error costs more than the signal.
  const abort = (): void => end.abort(GONE);
  res.once('close', abort);
  return { signal: end.signal, responseReady: abort };
}
