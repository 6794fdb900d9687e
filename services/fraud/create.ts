import { create } from '@bufbuild/protobuf';
import type { Client } from '@connectrpc/connect';
import type pg from 'pg';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { FraudReportCreatedSchema } from '../../proto/gen/rms/events/v1/events_pb.ts';
import type { ReturnsService } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { reasonOf } from '../platform/errors.ts';
import { claimKey, type KeyUse } from '../platform/idempotency.ts';
import { serviceActor } from '../platform/identity.ts';
import { appendEvents } from '../platform/outbox/append.ts';
import { inTransaction, violatedConstraint } from '../platform/postgres.ts';
import { type NewReport, type Report, reportExists, returnNotFound } from './report.ts';
import { findReport, insertReport } from './store.ts';

export interface FraudDeps {
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
export async function createReport(
  deps: FraudDeps,
  report: NewReport,
  use?: KeyUse,
): Promise<Report> {
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
