import type { Hooks } from '../ends/hooks.ts';
import { startEnds } from '../ends/hooks.ts';
import type { Receivers } from '../ends/sink.ts';
import { createPrograms, type Programs } from './programs.ts';

/** The only topic. */
export const TOPIC = 'return.closed';
/** Maximum number of concurrent deliveries, as in the webhooks service. */
const CONCURRENCY = '512';

interface Server {
  readonly origin: string;
  readonly token: string;
}

/** Another program that delivers webhooks. This repository contains no part of it. */
export interface Peer {
  readonly name: string;
  /** Its API in `publish.ts`. */
  readonly api: string;
  /** The programs that it needs. */
  readonly needs: readonly string[];
  readonly receivers: Receivers;
  start(
    programs: Programs,
    o: { readonly bin: string; readonly folder: string; readonly concurrency: string },
  ): Promise<Server>;
  /** Creates a tenant with one webhook for the topic. */
  subscribe(server: Server, tenant: string, url: string): Promise<void>;
}

/** A system that delivers webhooks, with both ends. */
export interface System {
  readonly name: string;
  readonly hooks: Hooks;
  /** CPU-seconds of the system without both ends. */
  cpu(): number;
  /** MB. */
  memory(): number;
  stop(): Promise<void>;
}

/** Starts a peer. @throws PeerUnavailable when a program is missing. */
export async function startPeer(
  peer: Peer,
  o: { readonly bin: string; readonly folder: string; readonly shops: readonly bigint[] },
): Promise<System> {
  const programs = createPrograms({ ...o, needs: peer.needs });
  try {
    const server = await peer.start(programs, { ...o, concurrency: CONCURRENCY });
    const env = { ORIGIN: server.origin, TOKEN: server.token, API: peer.api };
    const publisher = { args: ['test/bench/peers/publish.ts'], env };
    const hooks = await startEnds(
      { publisher, receivers: peer.receivers, perShop: 1 },
      async (origin) => {
        for (const shop of o.shops) {
          const tenant = `tenant-${shop}`;
          await peer.subscribe(server, tenant, `${origin}/hooks/${tenant}`);
        }
      },
    );
    return {
      name: peer.name,
      hooks,
      cpu: programs.cpu,
      memory: programs.memory,
      async stop() {
        await hooks.stop();
        await programs.stop();
      },
    };
  } catch (error) {
    await programs.stop();
    throw error;
  }
}

/** Calls the API of a peer. @throws Error when it answers with an error. */
export async function call(
  { origin, token }: Server,
  method: string,
  path: string,
  body?: unknown,
): Promise<void> {
  const answer = await fetch(`${origin}${path}`, {
    method,
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
}
