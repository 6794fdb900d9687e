/** The names of the settings that a client of a server has, for error messages. */
export interface CertificateSettings {
  /** Name of the server, such as `PostgreSQL`. */
  readonly server: string;
  /** The setting with the authorities of the server's certificate. */
  readonly authority: string;
  /** The setting with the host of the server. */
  readonly host: string;
}

const UNKNOWN_AUTHORITY = [
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'CERT_SIGNATURE_FAILURE',
];

/**
 * Returns a listener for errors of a connection. When the server's certificate was not accepted, the listener adds the
 * name of the setting to the message, because Node's own advice does not fit this program.
 */
export function namingSetting(o: CertificateSettings): (error: Error) => void {
  return (error) => {
    const fault = 'code' in error ? faultOf(String(error.code), o) : undefined;
    if (fault) error.message = `the certificate of ${o.server} was not accepted: ${fault}`;
  };
}

function faultOf(code: string, { authority, host }: CertificateSettings): string | undefined {
  if (UNKNOWN_AUTHORITY.includes(code)) return `no authority of ${authority} signed it`;
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') return `it is not for the host in ${host}`;
  if (code === 'CERT_HAS_EXPIRED') return 'it has expired';
  return code === 'CERT_NOT_YET_VALID' ? 'it is not valid yet' : undefined;
}
