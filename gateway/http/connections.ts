import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { announcesBody } from '../rest/body.ts';
import { AnswerNotRead } from '../rest/large-answer.ts';

/** Why the server ended a connection that the client kept. */
export type EndReason =
  | 'too many connections'
  | 'request too slow'
  | 'not a request'
  | 'body not sent'
  | 'answer not read'
  | 'stopping';

/** Counts connections. */
export interface ConnectionCounts {
  opened(): void;
  closed(): void;
  ended(reason: EndReason): void;
}

export interface ConnectionLimits {
  /** Most connections at once. */
  readonly max: number;
  /** How long the rest of a body may take to arrive after the answer. Milliseconds. */
  readonly unreadBodyMs: number;
  /** How long a client may take to read an answer. Milliseconds. */
  readonly answerMs: number;
}

/** What is open, and what each connection waits for. */
export interface Connections {
  /** Takes a new connection in. Above the maximum it replaces the one that has kept us waiting longest. */
  admit(socket: Socket): void;
  /** A request has its headers. */
  serve(req: IncomingMessage, res: ServerResponse): void;
  /** Whether an answer has begun to go out: nothing else may be written then. */
  isAnswering(socket: Socket): boolean;
  /** Ends the connections whose client has not read its answer in time. */
  endSlowReaders(now: number): void;
  /** Ends those that have been waiting for the headers of a request since before `time`. */
  endSilent(time: number): void;
  /** Ends those whose request has not arrived as a whole. */
  endIncomplete(): void;
}

interface Connection {
  /** Answers that are not out as a whole: a client may send several requests at once. */
  readonly inFlight: Set<ServerResponse>;
  /** Since when bytes have been waiting for the client to read; undefined where none are. */
  unreadSince: number | undefined;
}

/** Keeps account of the connections of one server. Times are those of `performance.now()`. */
export function createConnections(limits: ConnectionLimits, counts: ConnectionCounts): Connections {
  const all = new Map<Socket, Connection>();
  /** Those without a request, and since when: the oldest first. */
  const silent = new Map<Socket, number>();
  /** Those whose request announced a body: the oldest first. */
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
  /** A client that has the server waiting gives way; what is being answered stays. */
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

/** The answer is out: what is left of the body is discarded for a while, to keep the connection. */
function endUnlessSent(req: IncomingMessage, ms: number, end: () => void): void {
  const timer = setTimeout(() => {
    if (!req.complete) end();
  }, ms);
  req.once('close', () => clearTimeout(timer)).resume();
}
