import pg from 'pg';
import { namingSetting } from './certificate-errors.ts';

const nameSetting = namingSetting({
  server: 'PostgreSQL',
  authority: 'sslrootcert in DATABASE_URL',
  host: 'DATABASE_URL',
});

/**
 * A client of PostgreSQL. When the server's certificate is not accepted, its error contains the name of the setting.
 */
export class DatabaseClient extends pg.Client {
  constructor(config?: string | pg.ClientConfig) {
    super(config);
    this.connection.on('error', nameSetting);
  }
}
