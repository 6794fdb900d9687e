import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { ConnectRouter } from '@connectrpc/connect';
import {
  CreateReportRequestSchema,
  FraudService,
  type ReportSchema,
} from '../../proto/gen/rms/fraud/v1/fraud_pb.ts';
import { keyUseOf } from '../platform/idempotency.ts';
import { parseInput } from '../platform/input.ts';
import { createReport, type FraudDeps } from './create.ts';
import { CATEGORIES, newReport, type Report, reportNotFound } from './report.ts';
import { findReport } from './store.ts';

export function fraudRoutes(deps: FraudDeps): (router: ConnectRouter) => void {
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
