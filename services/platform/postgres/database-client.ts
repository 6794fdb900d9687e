import pg from 'pg';
import { namingSetting } from '../security/certificate-errors.ts';

const nameSetting = namingSetting({
  server: 'PostgreSQL',
  authority: 'sslrootcert in DATABASE_URL',
  host: 'DATABASE_URL',
});

/**
 * The first statement of each connection: ids and revisions leave a gap when the server was promoted or restored since
 * the schema was written last. See migration `failover/0001_server_timeline`. It does nothing in a schema that is not
 * migrated yet, and for roles without a schema.
 *
 * A promotion ends the connections to the lost server, and `step_to_timeline` rejects those to a standby. So nothing is
 * written on a new timeline before this step, although no other statement looks for it.
 */
const STEP_TO_TIMELINE = `do $$ begin
  if to_regproc('step_to_timeline') is not null then perform step_to_timeline(); end if;
end $$`;

/**
 * A client of PostgreSQL. When the server's certificate is not accepted, its error contains the name of the setting.
 */
export class DatabaseClient extends pg.Client {
  constructor(config?: string | pg.ClientConfig) {
    super(config);
    this.connection.on('error', nameSetting);
    // A connection may be lost before its pool listens to it. Without a listener, the error would end the process; the
    // next statement fails as well.
    this.on('error', () => {});
  }

  override connect(): Promise<this>;
  override connect(callback: (error: Error | null) => void): void;
  override connect(callback?: (error: Error | null) => void): Promise<this> | undefined {
    const connected = this.#connect();
    if (!callback) return connected;
    connected.then(() => callback(null), callback);
    return undefined;
  }

  async #connect(): Promise<this> {
    await super.connect();
    try {
      await this.query(STEP_TO_TIMELINE);
    } catch (error) {
      await this.end();
      throw error;
    }
    return this;
  }
}
