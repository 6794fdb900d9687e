import { Code, ConnectError } from '@connectrpc/connect';
import { FieldErrorSchema } from '../../../proto/gen/rms/portal/v1/common_pb.ts';
import { explain } from './errors.ts';

/** The message for a field of a form, such as `url`; undefined when the error is not about it. */
export function fieldError(error: unknown, field: string): string | undefined {
  return fieldOf(error) === field ? explain(error).text : undefined;
}

/** Whether the error is about none of these fields, so that the form shows it above its buttons. */
export function isFormError(error: unknown, fields: readonly string[]): boolean {
  const field = fieldOf(error);
  return error !== undefined && error !== null && (field === '' || !fields.includes(field));
}

function fieldOf(error: unknown): string {
  if (!(error instanceof ConnectError) || error.code !== Code.InvalidArgument) return '';
  return error.findDetails(FieldErrorSchema)[0]?.field ?? '';
}
