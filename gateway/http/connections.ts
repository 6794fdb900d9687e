import { AsyncLocalStorage } from 'node:async_hooks';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Meter } from '@opentelemetry/api';
import { ResponseNotRead } from './large-response.ts';
import { announcesBody } from './receive-body.ts';

/** Why the server closed a connection; a label of the metrics. */
export type EndReason =
  | 'too many connections'
  | 'too many requests'
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

/** Metrics for the connections of all listeners of the process. */
export function connectionMetrics(meter: Meter): ConnectionCounts {
  const open = meter.createUpDownCounter('http.server.connections', {
    description: 'Open connections',
  });
  const ended = meter.createCounter('http.server.connections.ended', {
    description: 'Connections that the server ended, by reason',
  });
  return {
    opened: () => open.add(1),
    closed: () => open.add(-1),
    ended: (reason) => ended.add(1, { reason }),
  };
}

export interface ConnectionLimits {
  readonly max: number;
  /** Time limit for the rest of a request body after the response was sent. Milliseconds. */
  readonly unreadBodyMs: number;
  /** Time limit for a client to read a response. Milliseconds. */
  readonly responseMs: number;
  /** A full server may close a connection whose client has not read a response for this time. Milliseconds. */
  readonly unreadMs: number;
}

/** The open connections of a server, with the state of each. */
export interface Connections {
  /** Adds a new connection. Above the maximum number, it closes the connection that has been waiting longest. */
  admit(socket: Socket): void;
  /**
   * Registers a request whose headers have arrived, and calls `handle` when the earlier responses of its connection are
   * complete.
   */
  serve(req: IncomingMessage, res: ServerResponse, handle: () => void): void;
  /** Whether a response has begun. If so, nothing else may be written to the socket. */
  hasBegunResponse(socket: Socket): boolean;
  /** From now on each response has `Connection: close`, and its connection ends after it. */
  endAfterResponses(): void;
  /** Closes the connections whose clients read their responses too slowly. */
  endSlowReaders(now: number): void;
  /** Closes the connections that have been waiting for request headers since before `time`. */
  endSilent(time: number): void;
  /** Closes the connections whose request is incomplete. */
  endIncomplete(): void;
}

/**
 * Maximum number of requests of one connection whose responses are not complete. Node parses every request of a chunk
 * at once, so a client could send thousands of them in 64 KiB.
 */
const UNFINISHED_MAX = 16;
/** Maximum number of connections with more than one such request. Each may have 64 KiB of requests in memory. */
const PIPELINING_MAX = 256;

interface Connection {
  /** Responses that are not complete, in the order of their requests. With pipelining, there may be several. */
  readonly inFlight: Set<ServerResponse>;
  /** Since when the socket buffer has bytes that the client has not read; undefined when it has none. */
  unreadSince: number | undefined;
}

/** Tracks the connections of one server. Times are those of `performance.now()`. */
export function createConnections(limits: ConnectionLimits, counts: ConnectionCounts): Connections {
  const open = openConnections(counts);
  let isEnding = false;
  return {
    admit(socket) {
      const isFull = open.all.size >= limits.max;
      const replaced = isFull && replaceable(open, performance.now() - limits.unreadMs);
      if (replaced) open.end(replaced, 'too many connections');
      if (!isFull || replaced) return open.add(socket);
      counts.ended('too many connections');
      socket.destroy();
    },
    serve(req, res, handle) {
      const { socket } = req;
      const connection = open.all.get(socket);
      // The connection has ended, but the parser still had its last chunk.
      if (!connection) return;
      const previous = [...connection.inFlight].at(-1);
      if (previous) {
        const isFull = open.pipelining.size >= PIPELINING_MAX && !open.pipelining.has(socket);
        if (isFull || connection.inFlight.size >= UNFINISHED_MAX) {
          return open.end(socket, 'too many requests');
        }
        open.pipelining.add(socket);
      }
      if (isEnding) res.shouldKeepAlive = false;
      if (announcesBody(req)) receive(open, { req, res, unreadBodyMs: limits.unreadBodyMs });
      track(open, connection, { req, res });
      res.once('close', () => {
        if (res.errored instanceof ResponseNotRead) counts.ended('answer not read');
      });
      // One after the other, because a response cannot be sent before the previous one, and would wait in memory.
      if (!previous) return handle();
      // In the context of this request, because the event comes in that of the previous one.
      const handleInContext = AsyncLocalStorage.bind(handle);
      previous.once('close', () => {
        if (socket.writable) handleInContext();
      });
    },
    hasBegunResponse(socket) {
      return [...(open.all.get(socket)?.inFlight ?? [])].some((res) => res.headersSent);
    },
    endAfterResponses() {
      isEnding = true;
      for (const { inFlight } of open.all.values())
        for (const res of inFlight) res.shouldKeepAlive = false;
    },
    endSlowReaders(now) {
      for (const [socket, connection] of open.all) {
        if (socket.writableLength === 0) connection.unreadSince = undefined;
        else connection.unreadSince ??= now;
        const { unreadSince = now } = connection;
        if (now - unreadSince > limits.responseMs) open.end(socket, 'answer not read');
      }
    },
    endSilent(time) {
      for (const [socket, since] of open.silent) if (since < time) open.end(socket, 'stopping');
    },
    endIncomplete() {
      for (const [socket, req] of open.receiving) if (!req.complete) open.end(socket, 'stopping');
    },
  };
}

interface OpenConnections {
  readonly all: Map<Socket, Connection>;
  /** Connections without a request, and the time since which each waits for one; the oldest first. */
  readonly silent: Map<Socket, number>;
  /** Connections whose request has a body; the oldest first. */
  readonly receiving: Map<Socket, IncomingMessage>;
  /** Connections with several requests whose responses are not complete. */
  readonly pipelining: Set<Socket>;
  add(socket: Socket): void;
  end(socket: Socket, reason: EndReason): void;
}

function openConnections(counts: ConnectionCounts): OpenConnections {
  const all = new Map<Socket, Connection>();
  const silent = new Map<Socket, number>();
  const receiving = new Map<Socket, IncomingMessage>();
  const pipelining = new Set<Socket>();
  const remove = (socket: Socket): void => {
    if (!all.delete(socket)) return;
    silent.delete(socket);
    receiving.delete(socket);
    pipelining.delete(socket);
    counts.closed();
  };
  return {
    all,
    silent,
    receiving,
    pipelining,
    add(socket) {
      all.set(socket, { inFlight: new Set(), unreadSince: undefined });
      silent.set(socket, performance.now());
      counts.opened();
      socket.once('close', () => remove(socket));
    },
    end(socket, reason) {
      if (socket.destroyed) return;
      remove(socket);
      counts.ended(reason);
      socket.destroy();
    },
  };
}

/**
 * A connection that waits for its client, so that it may be closed: the oldest without a request, then with an unfinished
 * body, then with a response that its client has not read since before `unreadBefore`.
 */
function replaceable(
  { all, silent, receiving }: OpenConnections,
  unreadBefore: number,
): Socket | undefined {
  for (const socket of silent.keys()) return socket;
  for (const [socket, req] of receiving) if (!req.complete) return socket;
  let longest: Socket | undefined;
  let since = unreadBefore;
  for (const [socket, { unreadSince = since }] of all) {
    if (unreadSince < since) [longest, since] = [socket, unreadSince];
  }
  return longest;
}

/** Registers the response of a request until it is complete. */
function track(
  { all, silent, pipelining }: OpenConnections,
  connection: Connection,
  { req: { socket }, res }: { readonly req: IncomingMessage; readonly res: ServerResponse },
): void {
  connection.inFlight.add(res);
  silent.delete(socket);
  res.once('close', () => {
    connection.inFlight.delete(res);
    connection.unreadSince = undefined;
    if (connection.inFlight.size < 2) pipelining.delete(socket);
    if (connection.inFlight.size === 0 && all.has(socket)) silent.set(socket, performance.now());
  });
}

/**
 * Registers the body of a request. If the response is complete before the body, the server discards the rest of the
 * body for a limited time, so that the connection can be reused.
 */
function receive(
  open: OpenConnections,
  o: { readonly req: IncomingMessage; readonly res: ServerResponse; readonly unreadBodyMs: number },
): void {
  const { req, res } = o;
  const { socket } = req;
  open.receiving.set(socket, req);
  res.once('finish', () => {
    if (req.complete) return;
    const timer = setTimeout(() => {
      if (!req.complete) open.end(socket, 'body not sent');
    }, o.unreadBodyMs);
    req.once('close', () => clearTimeout(timer)).resume();
  });
  res.once('close', () => {
    if (open.receiving.get(socket) === req) open.receiving.delete(socket);
  });
}
