import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { connect } from 'node:tls';
import type { ISocketFactory, KafkaConfig, SASLOptions } from 'kafkajs';
import { z } from 'zod';
import { namingSetting } from '../security/certificate-errors.ts';
import type { kafkaSecurityShape } from './config.ts';

/** How the process connects to brokers and authenticates. */
export interface KafkaSecurity {
  /** Absent when connections are plain text. */
  readonly tls?: {
    /** File with the authorities of the brokers' certificates. Without it the public authorities are trusted. */
    readonly caFile?: string | undefined;
    readonly certFile?: string | undefined;
    readonly keyFile?: string | undefined;
  };
  readonly sasl?: KafkaSasl;
}

/**
 * A secret, as a text or in a file. The file is read for every connection, so the secret may change while the process
 * runs.
 */
interface Secret {
  readonly text?: string | undefined;
  readonly file?: string | undefined;
}

export type KafkaSasl =
  | {
      readonly mechanism: 'plain' | 'scram-sha-256' | 'scram-sha-512';
      readonly username: string;
      readonly password: Secret;
    }
  | { readonly mechanism: 'oauthbearer'; readonly token: OAuthToken };

/** Where a token comes from: a file that another program updates, or an issuer that accepts our client credentials. */
type OAuthToken =
  | { readonly file: string }
  | {
      readonly url: string;
      readonly clientId: string;
      readonly clientSecret: Secret;
      readonly scope?: string | undefined;
    };

type KafkaVariables = z.infer<z.ZodObject<typeof kafkaSecurityShape>>;

/** Returns the security that the variables configure. `loadConfig` has checked that they fit together. */
export function securityFromConfig(config: KafkaVariables): KafkaSecurity {
  const tls = {
    caFile: config.KAFKA_TLS_CA_FILE,
    certFile: config.KAFKA_TLS_CERT_FILE,
    keyFile: config.KAFKA_TLS_KEY_FILE,
  };
  const sasl = saslFromConfig(config);
  return { ...(config.KAFKA_TLS && { tls }), ...(sasl && { sasl }) };
}

function saslFromConfig(config: KafkaVariables): KafkaSasl | undefined {
  const { KAFKA_SASL_MECHANISM: mechanism, KAFKA_SASL_USERNAME: username = '' } = config;
  const password = { text: config.KAFKA_SASL_PASSWORD, file: config.KAFKA_SASL_PASSWORD_FILE };
  if (mechanism === undefined) return undefined;
  if (mechanism !== 'oauthbearer') return { mechanism, username, password };
  const { KAFKA_SASL_TOKEN_FILE: file, KAFKA_SASL_TOKEN_URL: url = '' } = config;
  if (file !== undefined) return { mechanism, token: { file } };
  const scope = config.KAFKA_SASL_SCOPE;
  return { mechanism, token: { url, clientId: username, clientSecret: password, scope } };
}

/** Returns the security part of the library's settings. */
export function securitySettings({
  tls,
  sasl,
}: KafkaSecurity): Pick<KafkaConfig, 'ssl' | 'sasl' | 'socketFactory'> {
  return {
    ...(tls && { ssl: true, socketFactory: secureSockets(tls) }),
    ...(sasl && { sasl: saslSettings(sasl) }),
  };
}

const KEEP_ALIVE_MS = 60_000;

const nameSetting = namingSetting({
  server: 'Kafka',
  authority: 'KAFKA_TLS_CA_FILE',
  host: 'KAFKA_BROKERS',
});

/**
 * Creates the factory of TLS connections. It reads the files for every connection, because they may change. The
 * broker's certificate and name are verified.
 */
function secureSockets({ caFile, certFile, keyFile }: NonNullable<KafkaSecurity['tls']>) {
  const factory: ISocketFactory = ({ host, port, onConnect }) => {
    const socket = connect(
      {
        host,
        port,
        minVersion: 'TLSv1.2',
        ...(isIP(host) === 0 && { servername: host }),
        ...(caFile !== undefined && { ca: readFileSync(caFile) }),
        ...(certFile !== undefined && { cert: readFileSync(certFile) }),
        ...(keyFile !== undefined && { key: readFileSync(keyFile) }),
      },
      onConnect,
    );
    // This listener comes before those of kafkajs, so that the message that kafkajs logs contains the name of the
    // setting.
    return socket.on('error', nameSetting).setKeepAlive(true, KEEP_ALIVE_MS);
  };
  return factory;
}

function saslSettings(sasl: KafkaSasl): SASLOptions {
  if (sasl.mechanism === 'oauthbearer') {
    const token = tokenSource(sasl.token);
    return {
      mechanism: 'oauthbearer',
      oauthBearerProvider: async () => ({ value: await token() }),
    };
  }
  const { mechanism, username, password } = sasl;
  return {
    mechanism,
    username,
    // The library reads this property at every login, so a changed secret is used.
    get password() {
      return secretText(password);
    },
  };
}

function tokenSource(token: OAuthToken): () => Promise<string> {
  if ('file' in token) return async () => readFileSync(token.file, 'utf8').trim();
  const { clientSecret, ...rest } = token;
  return clientCredentials({ ...rest, clientSecret: () => secretText(clientSecret) });
}

/**
 * Returns the secret without the line break at the end, which most files have. @throws when the file cannot be read.
 */
function secretText({ text, file }: Secret): string {
  return file === undefined ? (text ?? '') : readFileSync(file, 'utf8').replace(/\r?\n$/, '');
}

interface ClientCredentials {
  /** The issuer's token endpoint. */
  readonly url: string;
  readonly clientId: string;
  /** Called for each new token, because the secret may change while the process runs. */
  readonly clientSecret: () => string;
  readonly scope?: string | undefined;
}

const TIMEOUT_MS = 5_000;
/** The part of its lifetime for which a token is used, so that it is still valid when it arrives at the broker. */
const USED_SHARE = 0.8;

const tokenResponse = z.object({
  access_token: z.string().min(1),
  expires_in: z.number().positive(),
});

/**
 * Gets access tokens by the client credentials grant (RFC 6749 section 4.4), and uses each token for most of its
 * lifetime.
 *
 * @returns a function that rejects when the issuer rejects the request or does not respond in time.
 */
function clientCredentials(o: ClientCredentials): () => Promise<string> {
  let last: { readonly token: string; readonly until: number } | undefined;
  let fetching: Promise<string> | undefined;

  async function fetchToken(): Promise<string> {
    const credentials = [o.clientId, o.clientSecret()].map(encodeURIComponent).join(':');
    const response = await fetch(o.url, {
      method: 'POST',
      headers: { authorization: `Basic ${Buffer.from(credentials).toString('base64')}` },
      body: new URLSearchParams({
        grant_type: 'client_credentials',
        ...(o.scope !== undefined && { scope: o.scope }),
      }),
      redirect: 'error',
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    if (!response.ok) throw new Error(`the issuer of Kafka tokens answered ${response.status}`);
    const { access_token: token, expires_in: lifeS } = tokenResponse.parse(await response.json());
    last = { token, until: performance.now() + lifeS * 1_000 * USED_SHARE };
    return token;
  }

  return async () => {
    if (last && performance.now() < last.until) return last.token;
    fetching ??= fetchToken().finally(() => {
      fetching = undefined;
    });
    return fetching;
  };
}
