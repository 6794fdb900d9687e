import type {
  GetPolicyResponse,
  PreviewPolicyRequest,
  PreviewPolicyResponse,
} from '../../proto/gen/rms/returns/v1/policy_pb.ts';
import { deadline } from '../../services/platform/process/deadlines.ts';
import { changesOf } from '../tenancy/field-change.ts';
import { type ActionContext, callerOf } from './context.ts';

/** A preview reads up to 10,000 returns. Milliseconds. */
const PREVIEW_TIMEOUT_MS = deadline(30_000);

/** Reads the policy that is in force. A shop without one gets an empty policy of version 0. */
export function getPolicy(context: ActionContext): Promise<GetPolicyResponse> {
  return context.services.returns.getPolicy(callerOf(context));
}

/** Judges the returns of the last 90 days by a draft. */
export function previewPolicy(
  { services }: ActionContext,
  request: Omit<PreviewPolicyRequest, '$typeName'>,
): Promise<PreviewPolicyResponse> {
  return services.returns.previewPolicy(request, { timeoutMs: PREVIEW_TIMEOUT_MS });
}

/** Notes for the audit log which version an update replaced, and by which one. */
export function notePolicy(
  { noteChanges }: ActionContext,
  { version: to }: { readonly version: bigint },
  { expectedVersion: from }: { readonly expectedVersion: bigint },
): void {
  if (from !== to) noteChanges?.(changesOf({ policy_version: [String(from), String(to)] }));
}
