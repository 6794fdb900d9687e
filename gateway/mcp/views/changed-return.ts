import { z } from 'zod';
import { type Return, ReturnStateSchema } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { iso, textOrNull, word } from '../../../services/contract/views/values.ts';
import { RETURN_STATES } from '../../../services/contract/vocabulary.ts';

/** The result of a tool that changes a return. */
export const changedReturn = z.strictObject({
  return_id: z.int(),
  order_name: z.string().nullable(),
  state: z.enum(RETURN_STATES).nullable(),
  updated_at: z.string().nullable().meta({ format: 'date-time' }),
});

export function changedReturnView(ret: Return): z.output<typeof changedReturn> {
  return {
    return_id: Number(ret.id),
    order_name: textOrNull(ret.order?.name),
    state: word(ReturnStateSchema, ret.state, RETURN_STATES),
    updated_at: iso(ret.updatedAt),
  };
}
