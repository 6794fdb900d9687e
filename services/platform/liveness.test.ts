import { Code, ConnectError, createClient } from '@connectrpc/connect';
import { createGrpcTransport } from '@connectrpc/connect-node';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import {
  Health,
  HealthCheckResponse_ServingStatus as Status,
} from '../../proto/gen/grpc/health/v1/health_pb.ts';
import type { RunningServer } from './grpc/server.ts';
import { LIVENESS_SERVICE, startLiveness } from './liveness.ts';

let server: RunningServer;
beforeAll(async () => {
  server = await startLiveness({ port: 0 });
});
afterAll(() => server.stop());

const check = (service: string) => {
  const transport = createGrpcTransport({ baseUrl: `http://127.0.0.1:${server.port}` });
  return createClient(Health, transport).check({ service });
};

test('is SERVING, without a token', async () => {
  expect(await check(LIVENESS_SERVICE)).toMatchObject({ status: Status.SERVING });
});

test('knows no other service', async () => {
  const error = ConnectError.from(await check('rms.returns.v1.ReturnsService').catch((e) => e));
  expect(error.code).toBe(Code.NotFound);
});
