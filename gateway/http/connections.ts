import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { announcesBody } from '../rest/body.ts';
import { AnswerNotRead } from '../rest/large-answer.ts';

/** Why the server closed a connection. */
export type EndReason =
  | 'too many connections'
  | 'request too slow'
  | 'not a request'
  | 'body not sent'
  | 'answer not read'
  | 'stopping';

/** Receives events about connections, for metrics. */
export interface ConnectionCounts {
  opened(): void;
  closed(): void;
  ended(reason: EndReason): void;
}

export interface ConnectionLimits {
  readonly max: number;
  /** Time limit for the rest of a request body after the response was sent. Milliseconds. */
  readonly unreadBodyMs: number;
  /** Time limit for a client to read a response. Milliseconds. */
  readonly answerMs: number;
}

/** The open connections of a server, with the state of each. */
export interface Connections {
  /** Adds a new connection. Above the maximum, it replaces the connection that has been waiting longest. */
  admit(socket: Socket): void;
  /** Registers a request whose headers have arrived. */
  serve(req: IncomingMessage, res: ServerResponse): void;
  /** Whether a response has begun; then nothing else may be written to the socket. */
  isAnswering(socket: Socket): boolean;
  /** Closes the connections whose client has not read its response in time. */
  endSlowReaders(now: number): void;
  /** Closes the connections that have been waiting for request headers since before `time`. */
  endSilent(time: number): void;
  /** Closes the connections whose request is incomplete. */
  endIncomplete(): void;
}

interface Connection {
  /** Responses that are not complete; with pipelining there may be several. */
  readonly inFlight: Set<ServerResponse>;
  /** The time since which unread bytes are in the socket buffer; undefined when there are none. */
  unreadSince: number | undefined;
}

/** Tracks the connections of one server. Times are those of `performance.now()`. */
export function createConnections(limits: ConnectionLimits, counts: ConnectionCounts): Connections {
  const all = new Map<Socket, Connection>();
  /** Connections without a request, with the time since when; the oldest first. */
  const silent = new Map<Socket, number>();
  /** Connections whose request has a body; the oldest first. */
  const receiving = new Map<Socket, IncomingMessage>();

  const forget = (socket: Socket): void => {
    if (!all.delete(socket)) return;
    silent.delete(socket);
    receiving.delete(socket);
    counts.closed();
  };
  const end = (socket: Socket, reason: EndReason): void => {
    if (socket.destroyed) return;
    forget(socket);
    counts.ended(reason);
    socket.destroy();
  };
  /** A connection that waits for its client and may be closed. Connections that are being answered are kept. */
  const replaceable = (): Socket | undefined => {
    for (const socket of silent.keys()) return socket;
    for (const [socket, req] of receiving) if (!req.complete) return socket;
    return undefined;
  };

  return {
    admit(socket) {
      const isFull = all.size >= limits.max;
      const former = isFull ? replaceable() : undefined;
      if (former) end(former, 'too many connections');
      if (isFull && !former) {
        counts.ended('too many connections');
        socket.destroy();
        return;
      }
      all.set(socket, { inFlight: new Set(), unreadSince: undefined });
      silent.set(socket, performance.now());
      counts.opened();
      socket.once('close', () => forget(socket));
    },
    serve(req, res) {
      const { socket } = req;
      const connection = all.get(socket);
      if (!connection) return;
      connection.inFlight.add(res);
      silent.delete(socket);
      if (announcesBody(req)) {
        receiving.set(socket, req);
        res.once('finish', () => {
          if (!req.complete)
            endUnlessSent(req, limits.unreadBodyMs, () => end(socket, 'body not sent'));
        });
      }
      res.once('close', () => {
        if (res.errored instanceof AnswerNotRead) counts.ended('answer not read');
        connection.inFlight.delete(res);
        connection.unreadSince = undefined;
        if (receiving.get(socket) === req) receiving.delete(socket);
        if (connection.inFlight.size === 0 && all.has(socket))
          silent.set(socket, performance.now());
      });
    },
    isAnswering(socket) {
      return [...(all.get(socket)?.inFlight ?? [])].some((res) => res.headersSent);
    },
    endSlowReaders(now) {
      for (const [socket, connection] of all) {
        if (socket.writableLength === 0) connection.unreadSince = undefined;
        else connection.unreadSince ??= now;
        const { unreadSince = now } = connection;
        if (now - unreadSince > limits.answerMs) end(socket, 'answer not read');
      }
    },
    endSilent(time) {
      for (const [socket, since] of silent) if (since < time) end(socket, 'stopping');
    },
    endIncomplete() {
      for (const [socket, req] of receiving) if (!req.complete) end(socket, 'stopping');
    },
  };
}

/** After the response, discards the rest of the body for a limited time, so that the connection can be reused. */
function endUnlessSent(req: IncomingMessage, ms: number, end: () => void): void {
  const timer = setTimeout(() => {
    if (!req.complete) end();
  }, ms);
  req.once('close', () => clearTimeout(timer)).resume();
}
