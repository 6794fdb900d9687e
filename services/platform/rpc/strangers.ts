import type { Http2SecureServer, Http2Server, ServerHttp2Session } from 'node:http2';

/**
 * Open calls of a connection before its first valid token. A caller with one sends more after a round trip: it waits for
 * the new setting by itself (RFC 9113, 5.1.2).
 */
export const STRANGER_CALLS = 16;
/** Size of a head, before and after. A service token has 2 KiB. Bytes. */
export const MAX_HEAD_BYTES = 16 * 1024;
/** Connections without a valid token. A new one ends the oldest, so that strangers keep out nobody. */
const MAX_STRANGERS = 200;
/** Time for the first valid token, and for refused calls to end. Milliseconds. */
const [TOKEN_MS, END_MS] = [30_000, 10_000];

/** Bounds what connections without a valid token can hold. */
export interface Strangers {
  /** The session has sent a valid token: it may have so many open calls. */
  know(session: ServerHttp2Session, calls: number): void;
  /** A call was refused. Ends the session, unless it has sent a valid token before. */
  refuse(session: ServerHttp2Session): void;
}

export function boundStrangers(server: Http2Server | Http2SecureServer): Strangers {
  /** The oldest is first. */
  const timers = new Map<ServerHttp2Session, NodeJS.Timeout>();
  const forget = (session: ServerHttp2Session): boolean => {
    clearTimeout(timers.get(session));
    return timers.delete(session);
  };
  /** The caller still gets the responses of calls in flight, and sends no more. */
  const end = (session: ServerHttp2Session): void => {
    session.close();
    forget(session);
    timers.set(session, setTimeout(() => session.destroy(), END_MS).unref());
  };
  server.on('session', (session) => {
    timers.set(session, setTimeout(() => end(session), TOKEN_MS).unref());
    session.once('close', () => forget(session));
    const [oldest] = timers.keys();
    if (timers.size > MAX_STRANGERS && oldest) oldest.destroy();
  });
  return {
    know(session, calls) {
      if (forget(session) && !session.closed) session.settings({ maxConcurrentStreams: calls });
    },
    refuse(session) {
      if (timers.has(session) && !session.closed) end(session);
    },
  };
}
