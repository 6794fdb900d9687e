import { globSync, readFileSync } from 'node:fs';
import { type DescService, ScalarType } from '@bufbuild/protobuf';
import { MethodOptions_IdempotencyLevel as Idempotency } from '@bufbuild/protobuf/wkt';
import { describe, expect, test } from '@jest/globals';
import { EventsService } from '../../proto/gen/rms/events/v1/events_service_pb.ts';
import { RPC_SERVICES } from '../../services/platform/rpc/callers.ts';
import { ROOT } from '../kit/process.ts';

const SERVICES: readonly DescService[] = [...Object.values(RPC_SERVICES), EventsService];

/** The entries of the list in docs/decisions.md: an RPC, and why it needs no key. */
const LIST = /^- `(\w+\.\w+)`: (.{20,})$/gm;

const named = (of: boolean) =>
  SERVICES.flatMap(({ name, methods }) =>
    methods
      .filter(({ idempotency }) => idempotency !== Idempotency.NO_SIDE_EFFECTS)
      .filter(({ input }) => (input.field.idempotencyKey?.scalar === ScalarType.STRING) === of)
      .map((method) => `${name.replace(/Service$/, '')}.${method.name}`),
  );

describe('every RPC that writes', () => {
  const page = readFileSync(`${ROOT}docs/decisions.md`, 'utf8');
  const listed = [...page.matchAll(LIST)].map(([, rpc = '']) => rpc);

  test('is an RPC of the services above', () => {
    // The portal's own API is of the gateway: gateway/portal/methods.test.ts checks its keys.
    const protos = globSync('proto/rms/**/*.proto', { cwd: ROOT }).filter(
      (path) => !path.startsWith('proto/rms/portal/'),
    );
    const rpcs = protos.flatMap(
      (path) => readFileSync(`${ROOT}${path}`, 'utf8').match(/^ {2}rpc /gm) ?? [],
    );
    expect(rpcs).toHaveLength(SERVICES.flatMap(({ methods }) => methods).length);
  });

  test('takes an idempotency key, or docs/decisions.md says why it needs none', () => {
    expect(named(true).length).toBeGreaterThan(20);
    expect([...listed].sort()).toEqual(named(false).sort());
  });
});
