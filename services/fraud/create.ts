import { create } from '@bufbuild/protobuf';
import type { Client } from '@connectrpc/connect';
import type pg from 'pg';
import { FraudReportCreatedSchema } from '../../proto/gen/rms/events/v1/events_pb.ts';
import type { ReturnsService } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { serviceActor } from '../platform/identity.ts';
import { appendEvents } from '../platform/outbox/append.ts';
import { inTransaction, violatedConstraint } from '../platform/postgres.ts';
import { type NewReport, type Report, reportExists, returnNotFound } from './report.ts';
import { insertReport } from './store.ts';

export interface FraudDeps {
  readonly pool: pg.Pool;
  readonly returns: Pick<Client<typeof ReturnsService>, 'getReturns'>;
}

/** Only the gateway names people: who reports stands in the report. */
const FRAUD = serviceActor('fraud');

/**
 * Records a fraud report.
 *
 * @throws DomainError NOT_FOUND when the shop has no such return, ALREADY_EXISTS when the return has
 *   a report; ConnectError UNAVAILABLE when returns does not answer.
 */
export async function createReport(deps: FraudDeps, report: NewReport): Promise<Report> {
  const { shopId, actor, returnId } = report;
  const { returns } = await deps.returns.getReturns({
    shopId,
    actor: FRAUD,
    returnIds: [returnId],
  });
  if (returns.length === 0) throw returnNotFound(returnId);

  try {
    return await inTransaction(deps.pool, async (tx) => {
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
