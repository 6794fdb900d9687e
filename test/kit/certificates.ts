import { generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';

/** A certificate and its key in PEM. */
export interface Certificate {
  readonly cert: string;
  readonly key: string;
}

export interface Authority {
  readonly cert: string;
  /** A certificate for an IPv4 address or a name. By default it is valid from an hour ago for a day. */
  issue(o: { address?: string; name?: string; from?: Date; to?: Date }): Certificate;
}

const HOUR_MS = 3_600_000;

/** A certificate authority that clients trust only when they are configured to. */
export function createAuthority(name: string): Authority {
  const keys = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const isAuthority = extension('2.5.29.19', sequence(boolean(true)), true);
  const own = {
    subject: name,
    publicKey: keys.publicKey,
    extensions: [isAuthority],
    ...validity(),
  };
  return {
    cert: certificate({ ...own, issuer: name, issuerKey: keys.privateKey }),
    issue({ address, name: host, from, to }) {
      const subject = generateKeyPairSync('ec', { namedCurve: 'P-256' });
      const names = [
        ...(host === undefined ? [] : [tagged(0x82, Buffer.from(host))]),
        ...(address === undefined
          ? []
          : [tagged(0x87, Buffer.from(address.split('.').map(Number)))]),
      ];
      const cert = certificate({
        issuer: name,
        issuerKey: keys.privateKey,
        subject: 'receiver',
        publicKey: subject.publicKey,
        extensions: [extension('2.5.29.17', sequence(...names))],
        ...validity(from, to),
      });
      return { cert, key: subject.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString() };
    },
  };
}

function validity(from = new Date(Date.now() - HOUR_MS), to = new Date(Date.now() + 24 * HOUR_MS)) {
  return { from, to };
}

interface CertificateParts {
  readonly issuer: string;
  readonly issuerKey: KeyObject;
  readonly subject: string;
  readonly publicKey: KeyObject;
  readonly from: Date;
  readonly to: Date;
  readonly extensions: readonly Buffer[];
}

/** X.509 version 3 (RFC 5280 section 4.1), signed with ECDSA and SHA-256. */
function certificate(o: CertificateParts): string {
  const algorithm = sequence(objectId('1.2.840.10045.4.3.2'));
  const body = sequence(
    tagged(0xa0, integer(Buffer.from([2]))),
    integer(Buffer.concat([Buffer.from([1]), randomBytes(8)])),
    algorithm,
    commonName(o.issuer),
    sequence(time(o.from), time(o.to)),
    commonName(o.subject),
    o.publicKey.export({ type: 'spki', format: 'der' }),
    tagged(0xa3, sequence(...o.extensions)),
  );
  const signature = tagged(
    0x03,
    Buffer.concat([Buffer.from([0]), sign('sha256', body, o.issuerKey)]),
  );
  const base64 = sequence(body, algorithm, signature).toString('base64');
  return `-----BEGIN CERTIFICATE-----\n${base64}\n-----END CERTIFICATE-----\n`;
}

function extension(id: string, value: Buffer, isCritical = false): Buffer {
  return sequence(objectId(id), ...(isCritical ? [boolean(true)] : []), tagged(0x04, value));
}

function commonName(text: string): Buffer {
  return sequence(tagged(0x31, sequence(objectId('2.5.4.3'), tagged(0x0c, Buffer.from(text)))));
}

/** GeneralizedTime, `YYYYMMDDhhmmssZ`. RFC 5280 requires two digits for years before 2050. */
function time(date: Date): Buffer {
  const digits = date.toISOString().replace(/[-:T]|\.\d+/g, '');
  return tagged(0x17, Buffer.from(digits.slice(2)));
}

function objectId(text: string): Buffer {
  const [first = 0, second = 0, ...rest] = text.split('.').map(Number);
  return tagged(0x06, Buffer.from([first * 40 + second, ...rest.flatMap(base128)]));
}

function base128(value: number): number[] {
  const digits = [value & 0x7f];
  for (let rest = value >> 7; rest > 0; rest >>= 7) digits.unshift((rest & 0x7f) | 0x80);
  return digits;
}

const sequence = (...parts: readonly Buffer[]): Buffer => tagged(0x30, Buffer.concat(parts));
const integer = (bytes: Buffer): Buffer => tagged(0x02, bytes);
const boolean = (value: boolean): Buffer => tagged(0x01, Buffer.from([value ? 0xff : 0]));

/** Tag, length, value (DER). */
function tagged(tag: number, value: Buffer): Buffer {
  const { length } = value;
  const size =
    length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...size]), value]);
}
