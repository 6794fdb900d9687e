import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { Client, ConnectRouter } from '@connectrpc/connect';
import type pg from 'pg';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { FraudReportCreatedSchema } from '../../proto/gen/rms/events/v1/events_pb.ts';
import {
  CreateReportRequestSchema,
  FraudService,
  type ReportSchema,
} from '../../proto/gen/rms/fraud/v1/fraud_pb.ts';
import { ReturnsService } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { appendEvents } from '../platform/outbox/append.ts';
import {
  inTransaction,
  type Queryable,
  violatedConstraint,
} from '../platform/postgres/postgres.ts';
import type { Settings } from '../platform/process/config.ts';
import {
  type RunningService,
  type ServiceOptions,
  startService,
} from '../platform/process/service.ts';
import { createServiceClient } from '../platform/rpc/client.ts';
import { serviceActor } from '../platform/security/identity.ts';
import { actorKindText } from '../platform/values/actor.ts';
import { reasonOf } from '../platform/values/errors.ts';
import { claimKey, type KeyUse, keyUseOf, startKeyPurge } from '../platform/values/idempotency.ts';
import { parseInput } from '../platform/values/input.ts';
import type { fraudShape } from './config.ts';
import {
  CATEGORIES,
  type NewReport,
  newReport,
  type Report,
  reportExists,
  reportNotFound,
  returnNotFound,
} from './report.ts';

type FraudOptions = ServiceOptions & Settings<typeof fraudShape>;

/** Starts the fraud service. While returns is unavailable, writes fail with UNAVAILABLE. */
export function startFraud(o: FraudOptions): Promise<RunningService> {
  return startService(
    {
      name: 'fraud',
      publishes: true,
      build: ({ pool, backgroundPool, identity, telemetry, logger }) => {
        const target = o.RETURNS_TARGET;
        const returns = createServiceClient(ReturnsService, { target, identity, telemetry });
        return {
          routes: fraudRoutes({ pool, returns: returns.client }),
          workers: async () => [startKeyPurge({ pool: backgroundPool, logger })],
          close: async () => returns.close(),
        };
      },
    },
    o,
  );
}

function fraudRoutes(deps: FraudDeps): (router: ConnectRouter) => void {
  return (router) => {
    router.service(FraudService, {
      async createReport(request) {
        const report = parseInput(newReport, request);
        const use = keyUseOf('CreateReport', CreateReportRequestSchema, request);
        return { report: toMessage(await createReport(deps, report, use)) };
      },

      async getReport({ shopId, returnId }) {
        const found = await findReport(deps.pool, shopId, returnId);
        if (!found) throw reportNotFound(returnId);
        return { report: toMessage(found) };
      },

      listCategories() {
        return { categories: CATEGORIES };
      },
    });
  };
}

function toMessage(report: Report): MessageInitShape<typeof ReportSchema> {
  const { category, comment, createdAt, ...rest } = report;
  return {
    ...rest,
    createdAt: timestampFromDate(createdAt),
    ...(category !== undefined && { category }),
    ...(comment !== undefined && { comment }),
  };
}

interface FraudDeps {
  readonly pool: pg.Pool;
  readonly returns: Pick<Client<typeof ReturnsService>, 'findReturn'>;
}

/**
 * The actor of fraud's calls to returns, because only the gateway may name users as actors. The report itself has the
 * actor of the request.
 */
const FRAUD = serviceActor('fraud');

/**
 * Records a fraud report. A repeated call with the same idempotency key returns the report.
 *
 * @throws DomainError NOT_FOUND when the shop has no such return; ALREADY_EXISTS when the return has a report already;
 *   ConnectError UNAVAILABLE when the returns service does not respond.
 */
async function createReport(deps: FraudDeps, report: NewReport, use?: KeyUse): Promise<Report> {
  const { shopId, actor, returnId } = report;
  await requireReturn(deps, { shopId, returnId });
  try {
    return await inTransaction(deps.pool, async (tx) => {
      if (!(await claimKey(tx, use, returnId))) {
        const earlier = await findReport(tx, shopId, returnId);
        if (earlier) return earlier;
      }
      const created = await insertReport(tx, report);
      const value = create(FraudReportCreatedSchema, {
        reportId: created.id,
        category: report.category ?? '',
      });
      await appendEvents(tx, [
        {
          trigger: 'fraud_report.created',
          shopId,
          returnId,
          key: `${shopId}:${returnId}`,
          actor,
          detail: { case: 'fraudReport', value },
          occurredAt: created.createdAt,
        },
      ]);
      return created;
    });
  } catch (error) {
    throw violatedConstraint(error) === 'reports_one_per_return' ? reportExists(returnId) : error;
  }
}

/**
 * Maximum size of a return that is read. Only its existence matters here, so a larger return need not be read. Bytes.
 */
const MAX_BYTES = 1024 * 1024;

async function requireReturn(
  { returns }: FraudDeps,
  { shopId, returnId }: Pick<NewReport, 'shopId' | 'returnId'>,
): Promise<void> {
  const selector = { case: 'returnId', value: returnId } as const;
  try {
    await returns.findReturn({ shopId, actor: FRAUD, selector, maxBytes: MAX_BYTES });
  } catch (error) {
    const reason = reasonOf(error);
    if (reason === ErrorReason.RETURN_NOT_FOUND) throw returnNotFound(returnId);
    if (reason !== ErrorReason.ANSWER_TOO_LARGE) throw error;
  }
}

interface Row {
  readonly id: bigint;
  readonly return_id: bigint;
  readonly category: string | null;
  readonly comment: string | null;
  readonly actor_kind: string;
  readonly actor_id: string;
  readonly actor_name: string;
  readonly created_at: Date;
}

const COLUMNS = 'id, return_id, category, comment, actor_kind, actor_id, actor_name, created_at';

/** Stores a report. The constraint `reports_one_per_return` rejects a second one for the same return. */
async function insertReport(tx: Queryable, report: NewReport): Promise<Report> {
  const { rows } = await tx.query<Row>(
    `insert into reports (shop_id, return_id, category, comment, actor_kind, actor_id, actor_name)
     values ($1, $2, $3, $4, $5, $6, $7)
     returning ${COLUMNS}`,
    [
      report.shopId,
      report.returnId,
      report.category ?? null,
      report.comment ?? null,
      actorKindText.toText(report.actor.kind),
      report.actor.id,
      report.actor.name,
    ],
  );
  const [row] = rows;
  if (!row) throw new Error('the statement returned no row');
  return toReport(row);
}

/** The report of a return; undefined when there is none. */
async function findReport(
  db: Queryable,
  shopId: bigint,
  returnId: bigint,
): Promise<Report | undefined> {
  const { rows } = await db.query<Row>(
    `select ${COLUMNS} from reports where shop_id = $1 and return_id = $2`,
    [shopId, returnId],
  );
  return rows[0] && toReport(rows[0]);
}

function toReport(row: Row): Report {
  return {
    id: row.id,
    returnId: row.return_id,
    category: row.category ?? undefined,
    comment: row.comment ?? undefined,
    createdAt: row.created_at,
    reportedBy: {
      kind: actorKindText.fromText(row.actor_kind),
      id: row.actor_id,
      name: row.actor_name,
    },
  };
}
