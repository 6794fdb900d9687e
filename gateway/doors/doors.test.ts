import { readFile } from 'node:fs/promises';
import { MethodOptions_IdempotencyLevel as Idempotency } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Command } from 'commander';
import type { Operation, OperationId } from '../../services/contract/operation.ts';
import { OPERATIONS } from '../../services/contract/operations.ts';
import { FAKE } from '../../test/kit/gateway/fake-objects.ts';
import { type McpBench, type SignedInMember, startMcpBench } from '../../test/kit/gateway/mcp.ts';
import { type Received, restClient, type Sent } from '../../test/kit/gateway/rest-client.ts';
import { VALID_BODIES } from '../../test/kit/gateway/valid-bodies.ts';
import { ACTION_PERMISSIONS, type ActionName } from '../actions/permissions.ts';
import { adminProgram } from '../admin/commands.ts';
import { TOOLS } from '../mcp/tools.ts';
import type { Doors } from './door.ts';
import { DOORS, OWN_DOORS } from './doors.ts';
import { doorsPage } from './page.ts';

const rows = DOORS.flatMap(({ service, rpcs }) =>
  Object.entries(rpcs).map(([rpc, doors]) => ({ service, rpc, doors })),
);
const all = [...rows.map(({ doors }) => doors), ...OWN_DOORS.map(({ doors }) => doors)];

/** All names behind the doors of one kind. */
function namesOf(kind: keyof Doors): Set<string> {
  return new Set(all.flatMap((doors) => (typeof doors[kind] === 'string' ? [] : doors[kind])));
}

/** The RPCs that have a door with this name, as `ServiceName.rpc`. */
function rpcsBehind(kind: 'rest' | 'mcp', name: string): string[] {
  return rows
    .filter(
      ({ doors: { [kind]: door } }) => typeof door !== 'string' && new Set<string>(door).has(name),
    )
    .map(({ service, rpc }) => `${service.name}.${rpc}`);
}

test('the page is generated; after a change run `npm run docs`', async () => {
  const page = await readFile(new URL('../../docs/doors.md', import.meta.url), 'utf8');
  expect(page).toBe(doorsPage());
});

test.each(DOORS)('has every RPC of $service.name', ({ service, rpcs }) => {
  const names = service.methods.map(({ localName }) => localName);
  expect(Object.keys(rpcs).sort()).toEqual(names.sort());
});

test('has every operation of REST, every tool and every admin command: add it to `gateway/doors/*-doors.ts`', () => {
  expect([...namesOf('rest')].sort()).toEqual(OPERATIONS.map(({ id }) => id).sort());
  expect([...namesOf('mcp')].sort()).toEqual(Object.keys(ACTION_PERMISSIONS).sort());
  const commands = commandsOf(
    adminProgram(
      async () => {},
      () => {},
    ),
  );
  expect([...namesOf('admin')].sort()).toEqual(['import', ...commands].sort());
});

/** The commands without subcommands, as `shop create`. */
function commandsOf(parent: Command, path: readonly string[] = []): string[] {
  return parent.commands.flatMap((command) => {
    const name = [...path, command.name()];
    return command.commands.length > 0 ? commandsOf(command, name) : name.join(' ');
  });
}

describe('a door leads to the RPC', () => {
  let bench: McpBench;
  let owner: SignedInMember;
  let send: (sent: Sent) => Promise<Received>;
  const called = new Set<string>();

  beforeAll(async () => {
    bench = await startMcpBench();
    send = restClient(bench);
    owner = await bench.member('owner');
    for (const { service } of DOORS) record(service.name);
  });
  afterAll(() => bench.stop());

  /** Records the calls of a service in `called`. */
  function record(name: string): void {
    const fakes: unknown = Reflect.get(bench.services, name.replace('Service', '').toLowerCase());
    if (typeof fakes !== 'object' || fakes === null) return;
    for (const [rpc, behaviour] of Object.entries(fakes)) {
      Reflect.set(fakes, rpc, (...parts: unknown[]) => {
        called.add(`${name}.${rpc}`);
        return behaviour(...parts);
      });
    }
  }

  test.each(OPERATIONS)('REST: $id', async (operation) => {
    called.clear();
    for (const sent of [requestOf(operation), ...(MORE[operation.id] ?? [])]) {
      expect((await send(sent)).status).toBeLessThan(300);
    }
    expect([...called]).toEqual(expect.arrayContaining(rpcsBehind('rest', operation.id)));
  });

  test.each(Object.keys(ACTION_PERMISSIONS) as ActionName[])('MCP: %s', async (name) => {
    called.clear();
    for (const sent of [await bench.goodCall(owner, name), ...(MORE_CALLS[name] ?? [])]) {
      expect((await bench.call(owner.token, name, sent)).isError).toBe(false);
    }
    expect([...called]).toEqual(expect.arrayContaining(rpcsBehind('mcp', name)));
    // The hint must be right, because assistants call a tool that only reads without asking their user.
    if (TOOLS[name].hints.readOnly.is) expect([...called].filter(isWrite)).toEqual([]);
  });
});

/** Whether an RPC, such as `ReturnsService.flagReturn`, changes something, as its proto says. */
function isWrite(called: string): boolean {
  const row = rows.find(({ service, rpc }) => `${service.name}.${rpc}` === called);
  return row?.service.method[row.rpc]?.idempotency !== Idempotency.NO_SIDE_EFFECTS;
}

/** Ids that the fake services know, where they are not those of a webhook. */
const IDS: Readonly<Partial<Record<OperationId, bigint>>> = {
  getReplay: FAKE.replay,
  cancelReplay: FAKE.replay,
  getDestination: FAKE.destination,
  updateDestination: FAKE.destination,
  createFraudReport: FAKE.returns.open,
  listEffects: FAKE.returns.open,
  recordGiftCard: FAKE.returns.open,
  recordLabel: FAKE.returns.open,
  updateLabel: FAKE.label,
  processReturn: FAKE.returns.open,
};

const BACKFILL = { kind: 'backfill', webhook_id: Number(FAKE.webhook) };
/** Further requests of operations that call one of several RPCs. */
const MORE: Readonly<Partial<Record<OperationId, readonly Sent[]>>> = {
  previewReplay: [{ path: '/api/v1/webhook-replay-previews', json: BACKFILL }],
  startReplay: [{ path: '/api/v1/webhook-replays', json: BACKFILL }],
};

/** Further calls of tools that call one of several RPCs. */
const MORE_CALLS: Readonly<Partial<Record<ActionName, readonly object[]>>> = {
  list_webhook_replays: [{}],
  preview_webhook_replay: [BACKFILL],
  start_webhook_replay: [BACKFILL],
};

function requestOf({ id, method, path }: Operation): Sent {
  const json = VALID_BODIES[id];
  const named = path
    .replace('{id}', String(IDS[id] ?? FAKE.webhook))
    .replace('{delivery_id}', FAKE.delivery)
    .replace('{token}', FAKE.cartToken);
  const query = id === 'getReturnDetails' ? `?return_id=${FAKE.returns.open}` : '';
  return { method, path: `/api/v1${named}${query}`, ...(json && { json }) };
}
