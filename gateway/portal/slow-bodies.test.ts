import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { Code } from '@connectrpc/connect';
import { afterEach, expect, test } from '@jest/globals';
import { SessionService } from '../../proto/gen/rms/portal/v1/session_pb.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { errorOf, type PortalPerson, portalPerson } from '../../test/kit/portal/portal.ts';
import { until } from '../../test/kit/until.ts';

/** The number of slots. A user may use a quarter of them. */
const MAX_REQUESTS_IN_FLIGHT = 8;
const PATH = '/portal/api/rms.portal.v1.SessionService/GetSession';

let under: TestGateway;
afterEach(() => under.stop());

/** Sends a call of a person without the rest of its body. */
async function begin({ secret }: PortalPerson): Promise<Socket> {
  const head = [
    `POST ${PATH} HTTP/1.1`,
    'Host: x',
    `Cookie: rms_portal=${secret}`,
    'Sec-Fetch-Site: same-origin',
    'Connect-Protocol-Version: 1',
    'Content-Type: application/json',
    'Content-Length: 10',
    '',
    '{',
  ];
  const socket = connect(under.gateway.port, '127.0.0.1');
  socket.on('error', () => socket.destroy()).resume();
  await once(socket, 'connect');
  socket.write(head.join('\r\n'));
  return socket;
}

const owner = () => portalPerson(under, { shopId: 1n, role: 'owner' });
const getSession = (person: PortalPerson) => person.client(SessionService).getSession({});
const hasTooMany = async (person: PortalPerson) =>
  (await errorOf(getSession(person)).catch(() => undefined))?.code === Code.ResourceExhausted;

/** Begins calls of a person until the person has too many open ones. */
async function beginUntilTooMany(person: PortalPerson): Promise<Socket[]> {
  const begun: Socket[] = [];
  await until(async () => {
    if (await hasTooMany(person)) return true;
    begun.push(await begin(person));
    return false;
  });
  return begun;
}

test('bodies of many users that do not arrive leave the slots to others', async () => {
  under = await startTestGateway({ MAX_REQUESTS_IN_FLIGHT });
  // More than a burst may have: four times the slots.
  for (let nth = 0; nth < 20; nth += 1) {
    await beginUntilTooMany(await owner());
  }
  expect((await getSession(await owner())).user).toBeDefined();
});
