// Billing: adds up what each customer owes, each order once, however often its event arrives.
//
// PGHOST, PGDATABASE, PGUSER and so on name the database, KAFKA the brokers. SIGTERM ends it in order. An error that
// no record causes ends it: start it again, as systemd or Kubernetes would, and it continues where it was.
import { Kafka, logLevel } from 'kafkajs'
import pg from 'pg'

const NAME = process.env.CONSUMER ?? 'billing' // all processes that share the work have the same name
const TOPIC = process.env.TOPIC ?? 'outbox.event.order'

const pool = new pg.Pool()
pool.on('error', (error) => console.error(`an idle connection was lost: ${error.message}`)) // the pool makes another

/**
 * What only the record can be blamed for: errors about data (class 22), constraints (class 23) and limits, such as that
 * of an index (class 54), and our own.
 */
class Unreadable extends Error {}
const isPoison = (error) => error instanceof Unreadable || /^(22|23|54)/.test(error.code ?? '')
const utf8 = new TextDecoder('utf-8', { fatal: true }) // toString() would replace what is not

function readOrder(message) {
  try {
    const { customer, cents } = JSON.parse(utf8.decode(message.value))
    if (typeof customer === 'string' && Number.isSafeInteger(cents)) return { customer, cents }
  } catch {
    // as below
  }
  throw new Unreadable('an order has a customer and cents')
}

/** Everything in a transaction has to go through its one client: pool.query() would take another connection. */
async function inTransaction(work) {
  const client = await pool.connect()
  try {
    await client.query('begin')
    const result = await work(client)
    await client.query('commit')
    return result
  } catch (error) {
    await client.query('rollback').catch(() => {}) // the error that counts is the first
    throw error
  } finally {
    client.release()
  }
}

// begin: consume
/** The mark and the effect commit together, or neither. */
function processMessage(message) {
  return inTransaction(async (client) => {
    const mark = 'select outbox.mark_processed($1, $2) as is_new'
    const { rows } = await client.query(mark, [message.headers?.id?.toString(), NAME])
    // A repetition, or an event that billing has no use for.
    if (!rows[0].is_new || message.headers.event_type?.toString() !== 'order.placed') return
    const { customer, cents } = readOrder(message)
    await client.query(
      `insert into balances as b values ($1, 1, $2)
       on conflict (customer) do update set orders = b.orders + 1, cents = b.cents + excluded.cents`,
      [customer, cents])
  })
}
// end: consume

/** kafkajs commits the offset after this has resolved. If it rejects, the message comes again. */
async function eachMessage({ topic, partition, message }) {
  try {
    await processMessage(message)
  } catch (error) {
    if (!isPoison(error)) throw error
    // What can never be processed must not stop what is behind it.
    await pool.query('insert into refused_records values ($1, $2, $3, $4, $5) on conflict do nothing',
      [topic, partition, message.offset, message.value, error.message])
  }
}

const kafka = new Kafka({ brokers: process.env.KAFKA.split(','), logLevel: logLevel.WARN })
const consumer = kafka.consumer({
  groupId: NAME,
  sessionTimeout: 6000, // how long a killed member keeps its partitions
  heartbeatInterval: 2000,
  retry: { restartOnFailure: async () => false }
})
consumer.on(consumer.events.CRASH, ({ payload }) => {
  console.error(payload.error)
  process.exit(1)
})
let stopping = false
for (const signal of ['SIGTERM', 'SIGINT']) {
  process.once(signal, async () => {
    stopping = true
    await consumer.disconnect() // waits for the message under way, and leaves the group
    await pool.end()
    process.exit()
  })
}
// A kafkajs that is disconnected while it joins the group rejects a promise of its own.
process.on('unhandledRejection', (error) => {
  if (!stopping) throw error
})

await consumer.connect()
await consumer.subscribe({ topics: [TOPIC], fromBeginning: true })
await consumer.run({ eachMessage })
