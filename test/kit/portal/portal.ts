import type { DescService } from '@bufbuild/protobuf';
import { type Client, ConnectError, createClient } from '@connectrpc/connect';
import { createConnectTransport } from '@connectrpc/connect-node';
import { createPortalSessions } from '../../../gateway/portal/session/sessions.ts';
import { addMember } from '../../../gateway/tenancy/members.ts';
import type { Role } from '../../../gateway/tenancy/permissions.ts';
import { linkAccount } from '../../../gateway/tenancy/sign-in-accounts.ts';
import { TEST_AUTHOR, type TestGateway } from '../gateway/test-gateway.ts';

/** A person with a session of the portal. */
export interface PortalPerson {
  readonly email: string;
  readonly userId: bigint;
  readonly shopId: bigint;
  /** The secret id of the session. */
  readonly secret: string;
  client<S extends DescService>(service: S, headers?: Record<string, string>): Client<S>;
}

/** Limits of sessions in tests, as by default. */
const SETTINGS = { hours: 12, idleMinutes: 120 };

/** Makes a member with this role and a session, as a sign-in does. */
export async function portalPerson(
  under: {
    readonly gateway: Pick<TestGateway['gateway'], 'baseUrl'>;
    readonly database: Pick<TestGateway['database'], 'pool'>;
  },
  o: { readonly shopId: bigint; readonly role: Role; readonly email?: string },
): Promise<PortalPerson> {
  const { pool } = under.database;
  const { shopId, role, email = `${crypto.randomUUID()}@example.com` } = o;
  const { userId } = await addMember(pool, { shopId, email, role, name: 'Ada', by: TEST_AUTHOR });
  const account = { issuer: 'https://id.example.com', subject: email };
  await linkAccount(pool, { email, account });
  const session = { userId, shopId, account, source: '192.0.2.1', device: 'Firefox on Linux' };
  const secret = await createPortalSessions(pool, SETTINGS).start(session);
  return {
    email,
    userId,
    shopId,
    secret,
    client: (service, headers = {}) =>
      portalClient(service, under.gateway.baseUrl, {
        cookie: `rms_portal=${secret}`,
        'sec-fetch-site': 'same-origin',
        ...headers,
      }),
  };
}

/** A client of the portal's API that sends these headers with every call. */
export function portalClient<S extends DescService>(
  service: S,
  baseUrl: string,
  headers: Record<string, string>,
): Client<S> {
  const transport = createConnectTransport({
    baseUrl: `${baseUrl}/portal/api`,
    httpVersion: '1.1',
    useBinaryFormat: false,
    interceptors: [
      (next) => (req) => {
        for (const [name, value] of Object.entries(headers)) req.header.set(name, value);
        return next(req);
      },
    ],
  });
  return createClient(service, transport);
}

/** The error of a call that must fail. */
export async function errorOf(call: Promise<unknown>): Promise<ConnectError> {
  const failed = await call.then(
    () => undefined,
    (thrown: unknown) => ConnectError.from(thrown),
  );
  if (!failed) throw new Error('the call did not fail');
  return failed;
}
