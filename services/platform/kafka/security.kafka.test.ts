import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type CryptoKey, exportJWK, generateKeyPair, SignJWT } from 'jose';
import { freePorts } from '../../../deploy/local/free-ports.ts';
import { type LocalKafka, startKafka } from '../../../deploy/local/kafka/start.ts';
import { type Certificate, createAuthority } from '../../../test/kit/certificates.ts';
import { busContract } from '../../../test/kit/events/bus-contract.ts';
import { silentLogger } from '../../../test/kit/services/telemetry.ts';
import { until } from '../../../test/kit/until.ts';
import type { EventBus } from '../bus/event-bus.ts';
import { createKafkaBus } from './kafka.ts';
import type { KafkaSasl, KafkaSecurity } from './security.ts';

const HOUR_MS = 3_600_000;
const PASSWORD = 'a long passphrase of Kafka: 100% ours';
const ISSUER = 'https://issuer.example.com';
const ours = createAuthority('ours');
const others = createAuthority('others');
const folder = mkdtempSync(join(tmpdir(), 'rms-kafka-security-'));
const file = (name: string) => join(folder, name);

/** The listeners of the test. The broker itself uses another one, without encryption. */
const LISTENERS = ['SECURE', 'MUTUAL', 'ELSEWHERE', 'EXPIRED'] as const;
type Listener = (typeof LISTENERS)[number];

let kafka: LocalKafka;
let ports: Readonly<Record<Listener, number>>;
let issuer: Server;
let signingKey: CryptoKey;
/** The response of the issuer, and the number of requests. */
const issuing = { secret: PASSWORD, audience: 'kafka', asked: 0 };

/** The certificate of a listener after the broker's next start: PEM, the key first. */
function install(listener: Listener, { key, cert }: Certificate): void {
  writeFileSync(file(`${listener}.pem`), key + cert);
}

beforeAll(async () => {
  const good = () => ours.issue({ address: '127.0.0.1', name: 'localhost' });
  const hourAgo = new Date(Date.now() - HOUR_MS);
  const expired = { from: new Date(hourAgo.getTime() - HOUR_MS), to: hourAgo };
  install('SECURE', good());
  install('MUTUAL', good());
  install('ELSEWHERE', ours.issue({ name: 'elsewhere' }));
  install('EXPIRED', ours.issue({ address: '127.0.0.1', ...expired }));
  writeFileSync(file('ours.crt'), ours.cert);
  writeFileSync(file('others.crt'), others.cert);
  writeFileSync(file('password'), `${PASSWORD}\n`);

  const pair = await generateKeyPair('RS256');
  signingKey = pair.privateKey;
  const jwk = { ...(await exportJWK(pair.publicKey)), kid: 'k1', alg: 'RS256', use: 'sig' };
  writeFileSync(file('jwks.json'), JSON.stringify({ keys: [jwk] }));
  issuer = createServer(async (request, response) => {
    issuing.asked += 1;
    const basic = Buffer.from(request.headers.authorization?.slice(6) ?? '', 'base64').toString();
    if (basic !== `rms:${encodeURIComponent(issuing.secret)}`) {
      response.writeHead(401).end();
      return;
    }
    const answer = { access_token: await tokenFor(issuing.audience), expires_in: 600 };
    response.end(JSON.stringify(answer));
  }).listen(0, '127.0.0.1');
  await once(issuer, 'listening');

  const free = await freePorts(LISTENERS.length);
  ports = {
    SECURE: free[0] ?? 0,
    MUTUAL: free[1] ?? 0,
    ELSEWHERE: free[2] ?? 0,
    EXPIRED: free[3] ?? 0,
  };
  const addresses = LISTENERS.map((name) => `${name}://127.0.0.1:${ports[name]}`).join(',');
  const secure = 'listener.name.secure.';
  const login = (module: string) => `org.apache.kafka.common.security.${module} required`;
  const oauth = 'org.apache.kafka.common.security.oauthbearer.';
  kafka = await startKafka({
    folder: join(folder, 'broker'),
    javaArguments: [
      `-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file://${file('jwks.json')}`,
      `-Dorg.apache.kafka.sasl.oauthbearer.allowed.files=${file('jwks.json')}`,
    ],
    formatArguments: ['SCRAM-SHA-256', 'SCRAM-SHA-512'].flatMap((mechanism) => [
      '--add-scram',
      `${mechanism}=[name="rms",password="${PASSWORD}"]`,
    ]),
    settings: ({ port, controllerPort }) => ({
      listeners: `CLIENTS://127.0.0.1:${port},CONTROLLER://127.0.0.1:${controllerPort},${addresses}`,
      'advertised.listeners': `CLIENTS://127.0.0.1:${port},${addresses}`,
      'listener.security.protocol.map':
        'CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL,MUTUAL:SSL,ELSEWHERE:SSL,EXPIRED:SSL',
      ...Object.fromEntries(
        LISTENERS.flatMap((name) => [
          [`listener.name.${name.toLowerCase()}.ssl.keystore.type`, 'PEM'],
          [`listener.name.${name.toLowerCase()}.ssl.keystore.location`, file(`${name}.pem`)],
        ]),
      ),
      'listener.name.mutual.ssl.client.auth': 'required',
      'listener.name.mutual.ssl.truststore.type': 'PEM',
      'listener.name.mutual.ssl.truststore.location': file('ours.crt'),
      [`${secure}sasl.enabled.mechanisms`]: 'PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER',
      [`${secure}plain.sasl.jaas.config`]: `${login('plain.PlainLoginModule')} user_rms="${PASSWORD}";`,
      [`${secure}scram-sha-256.sasl.jaas.config`]: `${login('scram.ScramLoginModule')};`,
      [`${secure}scram-sha-512.sasl.jaas.config`]: `${login('scram.ScramLoginModule')};`,
      [`${secure}oauthbearer.sasl.jaas.config`]: `${login('oauthbearer.OAuthBearerLoginModule')};`,
      [`${secure}oauthbearer.sasl.server.callback.handler.class`]: `${oauth}OAuthBearerValidatorCallbackHandler`,
      [`${secure}oauthbearer.sasl.oauthbearer.jwks.endpoint.url`]: `file://${file('jwks.json')}`,
      [`${secure}oauthbearer.sasl.oauthbearer.expected.audience`]: 'kafka',
      [`${secure}oauthbearer.sasl.oauthbearer.expected.issuer`]: ISSUER,
    }),
  });
});
afterAll(async () => {
  await kafka?.stop();
  issuer?.close();
  rmSync(folder, { recursive: true, force: true });
});

function tokenFor(audience: string): Promise<string> {
  return new SignJWT({ sub: 'rms' })
    .setProtectedHeader({ alg: 'RS256', kid: 'k1' })
    .setIssuer(ISSUER)
    .setAudience(audience)
    .setIssuedAt()
    .setExpirationTime('10m')
    .sign(signingKey);
}

const tls = () => ({ caFile: file('ours.crt') });
const withPassword = (
  mechanism: 'plain' | 'scram-sha-256' | 'scram-sha-512',
  password: { text?: string; file?: string } = { text: PASSWORD },
): KafkaSasl => ({ mechanism, username: 'rms', password });
const tokenUrl = () => {
  const address = issuer.address();
  return `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}/token`;
};

function open(listener: Listener, security: KafkaSecurity, host = '127.0.0.1'): EventBus {
  const brokers = [`${host}:${ports[listener]}`];
  const about = { clientId: 'test', logger: silentLogger(), retentionDays: 1 };
  return createKafkaBus({ brokers, ...about, security });
}

async function using<T>(bus: EventBus, work: (bus: EventBus) => Promise<T>): Promise<T> {
  try {
    return await work(bus);
  } finally {
    await bus.close();
  }
}

/** Publishes a record and reads it back. */
async function roundTrip(bus: EventBus): Promise<void> {
  const topic = `test.${randomUUID()}`;
  const received: string[] = [];
  const subscription = await bus.subscribe({
    group: randomUUID(),
    topics: [topic],
    handle: async (records) => {
      received.push(...records.map(({ key }) => key));
    },
  });
  await bus.publish(topic, [{ key: 'k', value: Buffer.from('v'), headers: {} }]);
  await until(() => received.includes('k'), 30_000);
  await subscription.stop();
}

const refuses = (bus: EventBus, because = '') =>
  using(bus, async (one) => {
    await expect(one.health()).rejects.toThrow(because);
    const record = { key: 'k', value: Buffer.from('v'), headers: {} };
    await expect(one.publish('t', [record])).rejects.toThrow();
  });

describe('Kafka over TLS with SASL', () => {
  test.each(['plain', 'scram-sha-256', 'scram-sha-512'] as const)(
    '%s: the right password is accepted, another one is not',
    async (mechanism) => {
      await using(open('SECURE', { tls: tls(), sasl: withPassword(mechanism) }), roundTrip);
      const file_ = { file: file('password') };
      await using(open('SECURE', { tls: tls(), sasl: withPassword(mechanism, file_) }), roundTrip);
      await refuses(open('SECURE', { tls: tls(), sasl: withPassword(mechanism, { text: 'no' }) }));
    },
    120_000,
  );

  test('oauthbearer: a token of the issuer is accepted, from its endpoint or from a file', async () => {
    const clientSecret = { text: PASSWORD };
    const token = { url: tokenUrl(), clientId: 'rms', clientSecret };
    const asked = issuing.asked;
    await using(
      open('SECURE', { tls: tls(), sasl: { mechanism: 'oauthbearer', token } }),
      roundTrip,
    );
    // Admin, producer and consumer open several connections with one token.
    expect(issuing.asked).toBe(asked + 1);
    writeFileSync(file('token'), await tokenFor('kafka'));
    const fromFile = { mechanism: 'oauthbearer', token: { file: file('token') } } as const;
    await using(open('SECURE', { tls: tls(), sasl: fromFile }), roundTrip);
  });

  test('oauthbearer: another audience and unknown credentials are rejected', async () => {
    writeFileSync(file('foreign'), await tokenFor('others'));
    const foreign = { mechanism: 'oauthbearer', token: { file: file('foreign') } } as const;
    await refuses(open('SECURE', { tls: tls(), sasl: foreign }));
    const token = { url: tokenUrl(), clientId: 'rms', clientSecret: { text: 'wrong' } };
    await refuses(open('SECURE', { tls: tls(), sasl: { mechanism: 'oauthbearer', token } }));
  });

  test('clients without SASL or without TLS are rejected', async () => {
    await refuses(open('SECURE', { tls: tls() }));
    await refuses(open('SECURE', { sasl: withPassword('scram-sha-512') }));
  });
});

/** Why a running listener is not trusted. */
async function faultOf(listener: Listener): Promise<unknown> {
  const socket = connect({
    host: '127.0.0.1',
    port: ports[listener],
    ca: ours.cert,
    rejectUnauthorized: false,
  });
  await once(socket, 'secureConnect');
  const { authorizationError } = socket;
  socket.destroy();
  return authorizationError;
}

describe('certificates of brokers', () => {
  const sasl = withPassword('scram-sha-512');

  test('are verified: authority, name and date', async () => {
    await using(open('SECURE', { tls: tls(), sasl }, 'localhost'), (bus) => bus.health());
    const foreign = open('SECURE', { tls: { caFile: file('others.crt') }, sasl });
    await refuses(foreign, 'no authority of KAFKA_TLS_CA_FILE signed it');
    // Public authorities did not sign our certificates.
    await refuses(open('SECURE', { tls: {}, sasl }));
    expect(await faultOf('ELSEWHERE')).toBe('ERR_TLS_CERT_ALTNAME_INVALID');
    await refuses(open('ELSEWHERE', { tls: tls() }));
    expect(await faultOf('EXPIRED')).toBe('CERT_HAS_EXPIRED');
    await refuses(open('EXPIRED', { tls: tls() }));
  });

  test('a client certificate is sent when brokers require one', async () => {
    const own = ours.issue({ name: 'rms' });
    writeFileSync(file('own.crt'), own.cert);
    writeFileSync(file('own.key'), own.key);
    const shown = { certFile: file('own.crt'), keyFile: file('own.key') };
    await using(open('MUTUAL', { tls: { ...tls(), ...shown } }), roundTrip);
    await refuses(open('MUTUAL', { tls: tls() }));
  });

  test('may change with their authority while a process runs, and so may its password', async () => {
    const changing = { caFile: file('changing.crt'), password: file('changing-password') };
    writeFileSync(changing.caFile, ours.cert);
    writeFileSync(changing.password, 'not yet');
    const password = { file: changing.password };
    const security = { tls: changing, sasl: withPassword('scram-sha-512', password) };
    await using(open('SECURE', security), async (bus) => {
      await expect(bus.health()).rejects.toThrow();
      writeFileSync(changing.password, PASSWORD);
      await until(
        () =>
          bus.health().then(
            () => true,
            () => false,
          ),
        30_000,
      );
      await roundTrip(bus);
      writeFileSync(changing.caFile, ours.cert + others.cert);
      install('SECURE', others.issue({ address: '127.0.0.1' }));
      await kafka.kill(0);
      await kafka.restart(0);
      await until(
        () =>
          roundTrip(bus).then(
            () => true,
            () => false,
          ),
        60_000,
      );
    });
    install('SECURE', ours.issue({ address: '127.0.0.1', name: 'localhost' }));
    await kafka.kill(0);
    await kafka.restart(0);
  });
});

busContract('kafka over TLS with SCRAM-SHA-512', async () =>
  open('SECURE', { tls: tls(), sasl: withPassword('scram-sha-512') }),
);
