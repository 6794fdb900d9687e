import pg from 'pg';
import { namingSetting } from './certificate-errors.ts';

const nameSetting = namingSetting({
  server: 'PostgreSQL',
  authority: 'sslrootcert in DATABASE_URL',
  host: 'DATABASE_URL',
});

/** A client whose error names the setting when the certificate of PostgreSQL is not accepted. */
export class DatabaseClient extends pg.Client {
  constructor(config?: string | pg.ClientConfig) {
    super(config);
    this.connection.on('error', nameSetting);
  }
}
