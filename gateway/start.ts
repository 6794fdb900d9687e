import { setTimeout as sleep } from 'node:timers/promises';
import { shutDown } from '../services/platform/shutdown.ts';
import { within } from '../services/platform/within.ts';
import { createApp } from './app.ts';
import { assemble } from './assemble.ts';
import { connectionMetrics } from './http/connections.ts';
import type { Phase } from './http/probes.ts';
import { type RunningHttpServer, startHttpServer } from './http/server.ts';
import { shedEarly } from './http/shed-early.ts';
import { type GatewayOptions, openParts } from './open-parts.ts';

export interface RunningGateway {
  readonly port: number;
  /** Where this process listens. */
  readonly baseUrl: string;
  readonly metricsUrl: string;
  /** Clears the counters of every rate limit. */
  resetLimits(): Promise<void>;
  /** Starts another HTTP listener, with a fixed date for the version calendar. Port 0 takes a free one. */
  listenAt(day: Date, port?: number): Promise<{ readonly url: string; stop(): Promise<void> }>;
  /**
   * Becomes unready, and ends each connection after its response. After `SHUTDOWN_DELAY_MS` it accepts no connections,
   * finishes the in-flight requests and mails within 20 s, and closes everything. May be called twice.
   */
  stop(): Promise<void>;
}

/**
 * Starts the gateway.
 *
 * The gateway is ready when it has connected its services, or after ten seconds without one of them. If the schema does
 * not fit the code, the gateway runs but stays unready. While the database or a service is
 * unavailable, the operations that need it return 503.
 *
 * @throws when a port is taken, or a setting is malformed.
 */
export async function startGateway(o: GatewayOptions): Promise<RunningGateway> {
  const opened = await openParts(o);
  const { logger, telemetry } = opened;
  const state: { phase: Phase } = { phase: 'connecting to the services' };
  void opened.backend.connected(CONNECT_MS).then(() => {
    if (state.phase !== 'stopping') state.phase = 'running';
  });
  const { deps, limits } = assemble(o, opened, () => state.phase);
  const counts = connectionMetrics(telemetry.meter);
  const servers = new Set<RunningHttpServer>();
  const listen = async (calendar: () => Date, port: number): Promise<RunningHttpServer> => {
    const app = shedEarly(deps.inFlight, calendar, createApp(deps, calendar));
    const limits = {
      maxConnections: o.MAX_CONNECTIONS,
      idleAtStopMs: o.SHUTDOWN_IDLE_MS,
      ...o.httpLimits,
    };
    const server = await startHttpServer(app, { host: o.HOST, port, counts, limits });
    servers.add(server);
    return server;
  };
  const close = async (): Promise<void> => {
    state.phase = 'stopping';
    for (const server of servers) server.endConnections();
    if (servers.size > 0 && o.SHUTDOWN_DELAY_MS > 0) await sleep(o.SHUTDOWN_DELAY_MS);
    // The mails stop beside the requests, so that Kubernetes does not kill the process before its stop ends. A request
    // only stores mails.
    const mails = opened.mails?.stop();
    mails?.catch(() => {}); // The step below logs it.
    await shutDown(logger, [
      () => Promise.all([...servers].map((server) => server.stop())),
      () => Promise.all([opened.workers.stop(), deps.mcp.stop()]),
      () => mails,
      () => opened.backend.close(),
      () => within(CLOSE_MS, opened.pool.end()),
      () => telemetry.stop(),
    ]);
  };

  const main = await listen(() => o.API_CALENDAR ?? new Date(), o.PORT).catch(
    async (error: unknown) => {
      await close();
      throw error;
    },
  );
  logger.info({ port: main.port, metrics: telemetry.metricsUrl }, 'listening');
  let stopped: Promise<void> | undefined;
  return {
    port: main.port,
    baseUrl: urlOf(o.HOST, main.port),
    metricsUrl: telemetry.metricsUrl,
    resetLimits: () => limits.reset(),
    async listenAt(day, port = 0) {
      const server = await listen(() => day, port);
      return {
        url: urlOf(o.HOST, server.port),
        async stop() {
          servers.delete(server);
          await server.stop();
        },
      };
    },
    stop() {
      stopped ??= close();
      return stopped;
    },
  };
}

function urlOf(host: string, port: number): string {
  return `http://${host === '0.0.0.0' ? '127.0.0.1' : host}:${port}`;
}

/** After this time the gateway is ready although a service does not answer: other operations work. Milliseconds. */
const CONNECT_MS = 10_000;

/** Maximum wait for the pool, which closes only when no connection is in use. Milliseconds. */
const CLOSE_MS = 5_000;
