import type { ServerResponse } from 'node:http';

/** The client disconnected before its request was complete, so no response can be sent. */
export class ClientGone extends Error {
  override readonly name = 'ClientGone';
}

const GONE = new ClientGone('the connection is closed');

/** Signals the end of the work for a request: the response is ready, or the client has disconnected. */
export interface WorkEnd {
  readonly signal: AbortSignal;
  /** Reports that the response is ready. */
  made(): void;
}

export function endOf(res: ServerResponse): WorkEnd {
  const end = new AbortController();
  // All signals share one error, because creating an error costs more than the signal.
  const made = (): void => end.abort(GONE);
  res.once('close', made);
  return { signal: end.signal, made };
}
