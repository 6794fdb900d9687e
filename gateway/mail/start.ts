import { startBackground } from '../../services/platform/background.ts';
import type { EventBus } from '../../services/platform/bus/event-bus.ts';
import { signaturesFromConfig } from '../../services/platform/bus/event-signature.ts';
import { kafkaBusFromConfig } from '../../services/platform/bus/kafka-from-config.ts';
import { signedBus } from '../../services/platform/bus/signed-bus.ts';
import type { processShape, Settings } from '../../services/platform/config.ts';
import { rememberDays } from '../../services/platform/consumer.ts';
import type { ServiceIdentity } from '../../services/platform/identity.ts';
import type { Logger } from '../../services/platform/log.ts';
import { measurePools } from '../../services/platform/pools.ts';
import { createPool } from '../../services/platform/postgres.ts';
import { startSweep } from '../../services/platform/sweep/start.ts';
import type { Telemetry } from '../../services/platform/telemetry.ts';
import { within } from '../../services/platform/within.ts';
import type { Loop } from '../../services/platform/worker.ts';
import { type MailAdder, mailAdder } from './add-mails.ts';
import type { MailSettings } from './config.ts';
import { GROUP, startMailConsumer } from './consume.ts';
import { mailMetrics } from './metrics.ts';
import { startMailSender } from './sender.ts';
import { sendMail } from './smtp.ts';

export interface MailOptions {
  readonly settings: MailSettings & Settings<typeof processShape>;
  readonly databaseUrl: string;
  readonly publicUrl: string;
  /** See `TextContext`. */
  readonly hasPortal: boolean;
  /** gRPC name of the webhooks service. */
  readonly webhooksTarget: string;
  readonly identity: ServiceIdentity;
  readonly logger: Logger;
  readonly telemetry: Telemetry;
  /** Kafka by default. The stop closes it. */
  readonly bus?: EventBus;
  /** See {@link startMailSender} (tests). Milliseconds. */
  readonly mailPausesMs?: readonly number[];
}

/** The mails to members of shops. */
export interface Mails extends MailAdder {
  /** Finishes the mails that are being sent, within 20 s. Other processes send mails that `add` stores after that. */
  stop(): Promise<void>;
}

/** Connections for mails: the consumer, the sweep, and the mails that are being sent. */
const CONNECTIONS = 4;
const STATEMENT_TIMEOUT_MS = 5_000;
const CLOSE_MS = 5_000;
const DAY_MS = 24 * 60 * 60 * 1_000;

/**
 * Starts to consume the events of the webhooks service, and to send mails about them. Without Kafka, the database or the
 * mail server it waits, and continues when they are available again.
 */
export async function startMails(o: MailOptions): Promise<Mails> {
  const { settings, logger, telemetry, identity } = o;
  const { RETENTION_DAYS: retentionDays, smtp } = settings;
  const pool = createPool(o.databaseUrl, {
    applicationName: 'gateway-mails',
    max: CONNECTIONS,
    statementTimeoutMs: STATEMENT_TIMEOUT_MS,
  });
  const bus = signedBus({
    bus: o.bus ?? kafkaBusFromConfig(settings),
    signatures: signaturesFromConfig(settings),
    rememberMs: rememberDays(retentionDays) * DAY_MS,
    meter: telemetry.meter,
    logger,
  });
  measurePools(telemetry, { mails: pool });
  const metrics = mailMetrics(telemetry.meter, pool);
  let sender: Loop | undefined;
  const gatherMs = settings.MAIL_GATHER_SECONDS * 1_000;
  const add = mailAdder({ gatherMs, metrics, wake: (ms) => sender?.wake(ms) });
  const close = async (): Promise<void> => {
    metrics.stop();
    await bus.close();
    await within(CLOSE_MS, pool.end());
  };
  const common = { pool, bus, logger, telemetry, retentionDays };
  const start = async () => {
    const consumer = await startMailConsumer({ ...common, add });
    const runtime = { ...common, backgroundPool: pool, identity };
    const source = { group: GROUP, source: 'webhooks', target: o.webhooksTarget };
    sender = startMailSender({
      pool,
      logger,
      metrics,
      publicUrl: o.publicUrl,
      hasPortal: o.hasPortal,
      send: (message, handOver) => sendMail(smtp, message, handOver),
      ...(o.mailPausesMs && { pausesMs: o.mailPausesMs }),
    });
    return [consumer, startSweep(runtime, source), sender];
  };
  try {
    const background = await startBackground({
      ...common,
      name: 'gateway',
      publishes: false,
      workers: start,
    });
    return {
      add,
      async stop() {
        await background.stopWorkers();
        await close();
      },
    };
  } catch (error) {
    await close();
    throw error;
  }
}
