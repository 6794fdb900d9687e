import { DELIVERY_STATES, type DeliveryState, TRIGGERS, type Trigger } from '../vocabulary.ts';
import { type Page, parametersIn, type QueryResult, readQuery } from './query.ts';

/** Selects deliveries of a webhook, and a page of them. */
export interface DeliveriesQuery extends Page {
  readonly state: DeliveryState | undefined;
  readonly trigger: Trigger | undefined;
  /** Only deliveries whose event happened at or after this time. */
  readonly from: Date | undefined;
  /** Only deliveries whose event happened before this time. */
  readonly to: Date | undefined;
}

/** The parameters of the query. */
export const DELIVERIES_PARAMETERS = ['state', 'trigger', 'from', 'to', 'limit', 'cursor'] as const;

/** Parses the query of a webhook's deliveries. Each known parameter may occur once, and must not be empty. */
export function readDeliveriesQuery(query: URLSearchParams): QueryResult<DeliveriesQuery> {
  return readQuery(() => {
    const parameters = parametersIn(query, DELIVERIES_PARAMETERS);
    return {
      state: parameters.word('state', DELIVERY_STATES),
      trigger: parameters.word('trigger', TRIGGERS),
      ...parameters.period('from', 'to'),
      ...parameters.page(),
    };
  });
}
