/** The states of deliveries that are not tried any more and did not arrive. A replay sends them again. */
export const GIVEN_UP: string[] = ['exhausted', 'expired'];

/** The states of all deliveries that their webhook has not received, as a filter of the log. */
export const NOT_RECEIVED = ['waiting', 'held', ...GIVEN_UP].join(',');
