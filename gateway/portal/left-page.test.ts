import { afterAll, afterEach, beforeAll, expect, jest, test } from '@jest/globals';
import { ReturnsService } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { errorOf, portalPerson } from '../../test/kit/portal/portal.ts';
import { until } from '../../test/kit/until.ts';

type Line = Readonly<Record<string, unknown>>;

const lines: Line[] = [];
let under: TestGateway;
beforeAll(async () => {
  const logDestination = { write: (line: string): void => void lines.push(JSON.parse(line)) };
  under = await startTestGateway({ LOG_LEVEL: 'debug', logDestination });
});
afterAll(() => under.stop());
afterEach(() => {
  jest.restoreAllMocks();
});

const METHOD = 'ReturnsService/SearchReturns';
const failed = () => lines.find(({ msg }) => String(msg).startsWith('portal call'));

/** A call that hangs in the service until it ends. */
async function hangingCall(o: {
  readonly signal?: AbortSignal;
  readonly headers?: Record<string, string>;
}) {
  lines.length = 0;
  let isCalled = false;
  under.services.returns.searchReturns = (_request, { signal }) => {
    isCalled = true;
    return new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason));
    });
  };
  const agent = await portalPerson(under, { shopId: 1n, role: 'admin' });
  const error = errorOf(
    agent.client(ReturnsService, o.headers).searchReturns(
      {},
      {
        ...(o.signal && { signal: o.signal }),
      },
    ),
  );
  await until(() => isCalled);
  return { error };
}

test('a call that the browser ends is no outage', async () => {
  // Under Jest, the Connect middleware does not recognize errors of Node, and prints them to the console.
  jest.spyOn(console, 'error').mockImplementation(() => {});
  const page = new AbortController();
  const { error } = await hangingCall({ signal: page.signal });
  page.abort();
  await error;
  expect(await until(failed)).toMatchObject({
    level: 'debug',
    method: expect.stringMatching(METHOD),
  });
  await until(() => lines.find(({ msg, status }) => msg === 'request' && status === 499));
  expect(lines.filter(({ level }) => level === 'warn' || level === 'error')).toEqual([]);
  const metrics = await (await fetch(under.gateway.metricsUrl)).text();
  expect(metrics).toMatch(/rpc_client_call_duration_seconds_count\{.*SearchReturns".*"CANCELLED"/);
  expect(metrics).not.toMatch(/rpc_client_errors_total\{.*SearchReturns"/);
});

test('a call whose service is too slow is an outage', async () => {
  const { error } = await hangingCall({ headers: { 'connect-timeout-ms': '300' } });
  await error;
  expect(await until(failed)).toMatchObject({
    level: 'warn',
    msg: 'portal call failed: service unavailable',
  });
});
