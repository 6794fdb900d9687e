import pg from 'pg';

/** What to look at, by the code of a certificate that was not accepted. Node's own advice is about other programs. */
const SETTINGS: Readonly<Record<string, string>> = {
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'no authority of sslrootcert in DATABASE_URL signed it',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'no authority of sslrootcert in DATABASE_URL signed it',
  SELF_SIGNED_CERT_IN_CHAIN: 'sslrootcert in DATABASE_URL does not contain its authority',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'sslrootcert in DATABASE_URL does not contain it',
  CERT_SIGNATURE_FAILURE: 'no authority of sslrootcert in DATABASE_URL signed it',
  ERR_TLS_CERT_ALTNAME_INVALID: 'it is not for the host in DATABASE_URL',
  CERT_HAS_EXPIRED: 'it has expired',
  CERT_NOT_YET_VALID: 'it is not valid yet',
};

/** A client whose error names the setting when the certificate of PostgreSQL is not accepted. */
export class DatabaseClient extends pg.Client {
  constructor(config?: string | pg.ClientConfig) {
    super(config);
    this.connection.on('error', nameSetting);
  }
}

function nameSetting(error: Error): void {
  const setting = 'code' in error ? SETTINGS[String(error.code)] : undefined;
  if (setting) error.message = `the certificate of PostgreSQL was not accepted: ${setting}`;
}
