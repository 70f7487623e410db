"""The broker's configs that Penstock obeys, and its own.

Names, types, defaults, bounds and what can be changed at run time are those of Apache Kafka 4.3.
"""

from __future__ import annotations

from penstock.broker.config.broker_unused import UNUSED
from penstock.broker.config.definitions import read_table

_OBEYED = read_table("""
add.partitions.to.txn.retry.backoff.max.ms int =100 >=0
    How long an answer may be held back while a transaction of the same id is being ended.
advertised.listeners list
    The addresses given to clients, where they differ from the listeners.
allow.everyone.if.no.acl.found custom =false internal
    Whether everybody may do everything to a resource that no ACL is about.
authorizer.class.name string =
    What decides what clients may do: nothing, or org.apache.kafka.metadata.authorizer.StandardAuthorizer.
auto.create.topics.enable bool =true
    Whether a topic is created when a client first asks for it.
auto.leader.rebalance.enable bool =true
    Whether brokers of a cluster give partitions to those that lead fewer, and back to preferred leaders.
broker.heartbeat.interval.ms int =2000
    How often a broker of a cluster renews its lease; at least six times within broker.session.timeout.ms.
broker.id int =-1
    The older name of node.id.
broker.rack string
    The zone or room of the broker. Clients see it in metadata; replicas in a cluster are spread over racks.
broker.session.timeout.ms int =9000
    The lease of a broker in a cluster: how long others wait for one that has stopped to answer before they take over.
compression.gzip.level int =-1 gzip-level @cluster
    Level when batches are compressed again with gzip.
compression.lz4.level int =9 1..17 @cluster
    Level when batches are compressed again with LZ4; 9 is the fast compressor.
compression.type string =producer {uncompressed,zstd,lz4,snappy,gzip,producer} @cluster
    The codec in which batches are stored; producer keeps what was sent.
compression.zstd.level int =3 -131072..22 @cluster
    Level when batches are compressed again with zstd.
config.providers list = @cluster
    Names of providers that resolve variables in the values of other configs, at the start.
connection.failed.authentication.delay.ms int =100 >=0
    How long the answer to a failed authentication is held back.
connections.max.idle.ms long =600000
    A connection is closed after this long without a request.
connections.max.reauth.ms long =0
    How long a session lasts before its client has to authenticate anew; 0 means without limit.
controlled.shutdown.enable bool =true
    Whether a broker of a cluster hands its partitions over before it stops; else others take over when it is gone.
controller.listener.names list
    Listeners of Kafka's controllers; none is opened, because broker and controller are one process.
controller.quota.window.num int =11 >=1
    Windows of controller.quota.window.size.seconds whose worth of mutations a client may save up.
controller.quota.window.size.seconds int =1 >=1
    Length of one window of the quota of controller mutations.
default.replication.factor int =1
    Replicas of topics that say nothing about them, in a cluster whose leaders move, as far as there are brokers.
delete.topic.enable bool =true
    Whether topics may be deleted.
errors.deadletterqueue.auto.create.topics.enable bool =false @cluster internal
    Whether the dead-letter topic of a share group is created when it is first needed.
errors.deadletterqueue.topic.name.prefix string =dlq. @cluster internal
    How the name of a dead-letter topic must begin.
fetch.max.bytes int =57671680 >=1024
    The most bytes that one fetch answers, save for a first batch that is larger by itself.
group.consumer.assignment.interval.ms int =1000 >=0 @cluster
    The least time between two assignments of a consumer group.
group.consumer.assignors list =uniform,range
    Assignors of consumer groups, the default one first.
group.consumer.heartbeat.interval.ms int =5000 >=1
    How often members of a consumer group send a heartbeat.
group.consumer.max.assignment.interval.ms int =15000 >=0
    Upper bound of a group's own consumer.assignment.interval.ms.
group.consumer.max.heartbeat.interval.ms int =15000 >=1
    Upper bound of a group's own consumer.heartbeat.interval.ms.
group.consumer.max.session.timeout.ms int =60000 >=1
    Upper bound of a group's own consumer.session.timeout.ms.
group.consumer.max.size int =2147483647 >=1
    Members that a consumer group may have.
group.consumer.migration.policy string =bidirectional {DISABLED,DOWNGRADE,UPGRADE,BIDIRECTIONAL} any-case
    Whether classic groups become consumer groups and back while members of both kinds join.
group.consumer.min.assignment.interval.ms int =0 >=0
    Lower bound of a group's own consumer.assignment.interval.ms.
group.consumer.min.heartbeat.interval.ms int =5000 >=1
    Lower bound of a group's own consumer.heartbeat.interval.ms.
group.consumer.min.session.timeout.ms int =45000 >=1
    Lower bound of a group's own consumer.session.timeout.ms.
group.consumer.regex.refresh.interval.ms int =600000 >=10000 internal
    How often subscriptions by pattern are matched against the topics anew.
group.consumer.session.timeout.ms int =45000 >=1
    Silence after which a member of a consumer group is removed.
group.coordinator.rebalance.protocols list =classic,consumer,streams rebalance-protocols
    Group protocols that are answered: classic always, consumer where it is named; share groups follow share.version.
group.initial.rebalance.delay.ms int =3000
    How long the first member of an empty classic group is made to wait for others.
group.max.session.timeout.ms int =1800000
    Upper bound of the session timeout that a classic member may ask for.
group.max.size int =2147483647 >=1
    Members that a classic group may have.
group.min.session.timeout.ms int =6000
    Lower bound of the session timeout that a classic member may ask for.
group.share.delivery.count.limit int =5 2..10
    Deliveries after which a record is given up.
group.share.heartbeat.interval.ms int =5000 >=1
    How often members of a share group send a heartbeat.
group.share.max.delivery.count.limit int =10 5..25
    Upper bound of a group's own share.delivery.count.limit.
group.share.max.heartbeat.interval.ms int =15000 >=1
    Upper bound of a group's own share.heartbeat.interval.ms.
group.share.max.partition.max.record.locks int =4000 2000..10000
    Upper bound of a group's own share.partition.max.record.locks.
group.share.max.record.lock.duration.ms int =60000 30000..3600000
    Upper bound of a group's own share.record.lock.duration.ms.
group.share.max.session.timeout.ms int =60000 >=1
    Upper bound of a group's own share.session.timeout.ms.
group.share.max.share.sessions int =2000 >=1
    Share sessions that a broker holds at a time.
group.share.max.size int =200 1..1000
    Members that a share group may have.
group.share.min.delivery.count.limit int =2 2..5
    Lower bound of a group's own share.delivery.count.limit.
group.share.min.heartbeat.interval.ms int =5000 >=1
    Lower bound of a group's own share.heartbeat.interval.ms.
group.share.min.partition.max.record.locks int =100 100..2000
    Lower bound of a group's own share.partition.max.record.locks.
group.share.min.record.lock.duration.ms int =15000 1000..30000
    Lower bound of a group's own share.record.lock.duration.ms.
group.share.min.session.timeout.ms int =45000 >=1
    Lower bound of a group's own share.session.timeout.ms.
group.share.partition.max.record.locks int =2000 100..10000
    Records of a partition that may be in flight at a time.
group.share.record.lock.duration.ms int =30000 1000..3600000
    How long an acquired record belongs to its consumer.
group.share.session.timeout.ms int =45000 >=1
    Silence after which a member of a share group is removed.
inter.broker.listener.name string
    The listener through which brokers that share a catalog reach each other; the first one unless it is set.
listener.security.protocol.map string =SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT @broker
    The security protocol of each listener, as NAME:PROTOCOL, separated by commas.
listeners list =PLAINTEXT://:9092 @broker
    Addresses to listen on, as NAME://host:port.
log.cleaner.backoff.ms long =15000 >=0 @cluster
    Pause between two looks for logs to compact.
log.cleaner.dedupe.buffer.size long =134217728 @cluster
    Memory for the map of keys while compacting.
log.cleaner.delete.retention.ms long =86400000 >=0 @cluster
    How long a tombstone stays readable after its key was compacted.
log.cleaner.enable bool =true
    Whether logs are compacted at all.
log.cleaner.io.max.bytes.per.second double =1.7976931348623157E308 @cluster
    Bytes that compaction may read and write per second.
log.cleaner.max.compaction.lag.ms long =9223372036854775807 >=1 @cluster
    Age at which a record must have been compacted.
log.cleaner.min.cleanable.ratio double =0.5 0..1 @cluster
    Share of a log that must be uncompacted before it is compacted.
log.cleaner.min.compaction.lag.ms long =0 >=0 @cluster
    Age below which a record is not compacted.
log.cleanup.policy list =delete {compact,delete} @cluster
    What becomes of old segments: delete, compact, or both.
log.dir list =/tmp/kafka-logs
    As log.dirs.
log.dirs list
    The folder of the logs; the older name of the option --data.
log.flush.interval.messages long =9223372036854775807 >=1 @cluster
    Records after which a log is written through to the disk.
log.flush.interval.ms long @cluster
    Time after which a log is written through to the disk.
log.flush.scheduler.interval.ms long =9223372036854775807
    As log.flush.interval.ms when that is not set.
log.index.interval.bytes int =4096 >=0 @cluster
    Bytes of log between two entries of the offset index.
log.index.size.max.bytes int =10485760 >=4 @cluster
    The largest index of a segment.
log.message.timestamp.after.max.ms long =3600000 >=0 @cluster
    How far ahead of the broker's clock a record's timestamp may be.
log.message.timestamp.before.max.ms long =9223372036854775807 >=0 @cluster
    How far behind the broker's clock a record's timestamp may be.
log.message.timestamp.type string =CreateTime {CreateTime,LogAppendTime} @cluster
    Whose timestamp a record carries: CreateTime is the producer's, LogAppendTime the broker's.
log.retention.bytes long =-1 @cluster
    Size of a partition above which its oldest segments are deleted; -1 is without limit.
log.retention.check.interval.ms long =300000 >=1
    Pause between two looks for segments to delete.
log.retention.hours int =168
    Age in hours at which segments are deleted.
log.retention.minutes int
    Age in minutes at which segments are deleted; comes before log.retention.hours.
log.retention.ms long @cluster
    Age in ms at which segments are deleted, -1 for never; comes before log.retention.minutes.
log.roll.hours int =168 >=1
    Age in hours at which a segment is followed by a new one.
log.roll.jitter.hours int =0 >=0
    The most hours by which rolling is spread out at random.
log.roll.jitter.ms long @cluster
    The most ms by which rolling is spread out at random; comes before log.roll.jitter.hours.
log.roll.ms long @cluster
    Age in ms at which a segment is followed by a new one; comes before log.roll.hours.
log.segment.bytes int =1073741824 >=1048576 @cluster
    Size at which a segment is followed by a new one.
log.segment.delete.delay.ms long =60000 >=0 @cluster
    How long a deleted segment's file is kept for readers that still have it open.
max.connection.creation.rate int =2147483647 >=0 @cluster
    Connections that are taken in per second, by the broker or, with a listener's prefix, by that listener.
max.connections int =2147483647 >=0 @cluster
    Connections at a time.
max.connections.per.ip int =2147483647 >=0 @cluster
    Connections at a time from one address.
max.connections.per.ip.overrides string = numbers-of-connections @cluster
    Exceptions from max.connections.per.ip, as address:number, separated by commas.
max.incremental.fetch.session.cache.slots int =1000 >=0
    Fetch sessions that are remembered at a time.
max.request.partition.size.limit int =2000 >=1
    Partitions that one DescribeTopicPartitions answer may hold.
message.max.bytes int =1048588 >=0 @cluster
    The largest batch that is taken, as stored.
min.insync.replicas int =1 >=1 @cluster
    In a cluster whose leaders move, how many brokers must be there for acks=all, unless the topic says.
node.id int >=0
    The number of this broker in its cluster.
num.partitions int =1 >=1
    Partitions of a topic that is created without a number.
offset.metadata.max.bytes int =4096
    The longest text that a consumer may store beside an offset.
offsets.retention.check.interval.ms long =600000 >=1
    Pause between two looks for offsets to forget.
offsets.retention.minutes int =10080 >=1
    How long the offsets of an empty group are kept.
offsets.topic.num.partitions int =50 >=1
    Partitions of __consumer_offsets; fixed once the topic exists.
offsets.topic.replication.factor short =3 >=1
    Replicas of __consumer_offsets in a cluster whose leaders move, as far as there are brokers.
offsets.topic.segment.bytes int =104857600 >=1
    Segment size of __consumer_offsets.
producer.id.expiration.check.interval.ms int =600000 >=1 internal
    Pause between two looks for producers to forget.
producer.id.expiration.ms int =86400000 >=1 @cluster
    How long a partition remembers an idle producer's sequence numbers.
quota.window.num int =11 >=1
    Windows over which the use of a quota is measured, the current one included.
quota.window.size.seconds int =1 >=1
    Length of one window; also the longest that a quota of requests or connections makes anybody wait.
sasl.enabled.mechanisms list =GSSAPI @broker
    SASL mechanisms of listeners; where it is not set, SCRAM, and over TLS also PLAIN.
sasl.jaas.config password @broker
    Users and passwords for PLAIN (user_NAME options); without them PLAIN takes those of SCRAM.
sasl.mechanism.inter.broker.protocol string =GSSAPI @broker
    SCRAM-SHA-256 or SCRAM-SHA-512, with which brokers log in with each other; GSSAPI leaves the choice to them.
sasl.oauthbearer.clock.skew.seconds int =30
    How far the clock of the tokens' issuer may differ from the broker's.
sasl.oauthbearer.expected.audience list =
    Audiences of which a token must name one.
sasl.oauthbearer.expected.issuer string
    Who must have issued a token.
sasl.oauthbearer.jwks.endpoint.refresh.ms long =3600000
    How often the keys that sign tokens are fetched anew.
sasl.oauthbearer.jwks.endpoint.url string
    Where the keys that sign tokens are: a file://, http:// or https:// address.
sasl.oauthbearer.scope.claim.name string =scope
    The claim of a token that names its scopes.
sasl.oauthbearer.sub.claim.name string =sub
    The claim of a token that names its user.
sasl.server.max.receive.size int =524288
    The most bytes that a frame may have before its client is authenticated.
security.inter.broker.protocol string =PLAINTEXT {PLAINTEXT,SSL,SASL_PLAINTEXT,SASL_SSL}
    Brokers reach each other through the listener of this name, if it is set and inter.broker.listener.name is not.
share.coordinator.cold.partition.snapshot.interval.ms int =300000 >=1 internal
    After how long without a write a share-partition's state gets a fresh snapshot.
share.coordinator.snapshot.update.records.per.snapshot int =500 0..500
    Updates of a share-partition's state between two snapshots.
share.coordinator.state.topic.min.isr short =2 >=1
    Written to the configs of __share_group_state.
share.coordinator.state.topic.num.partitions int =50 >=1
    Partitions of __share_group_state; fixed once the topic exists.
share.coordinator.state.topic.prune.interval.ms int =300000 >=1 internal
    How often the records of __share_group_state that nobody needs are deleted.
share.coordinator.state.topic.replication.factor short =3 >=1
    Replicas of __share_group_state in a cluster whose leaders move, as far as there are brokers.
share.coordinator.state.topic.segment.bytes int =104857600 >=1
    Segment size of __share_group_state.
socket.listen.backlog.size int =1024 >=1
    Connections that may wait to be accepted.
socket.receive.buffer.bytes int =-1
    Receive buffer of a socket; -1 leaves it to the operating system.
socket.request.max.bytes int =104857600 >=1
    The largest request that is read; a larger one closes the connection.
socket.send.buffer.bytes int =409600
    Send buffer of a socket; -1 leaves it to the operating system.
super.users custom = internal principals
    Principals that may do everything, separated by semicolons.
ssl.cipher.suites list = @broker
    Cipher suites that TLS may negotiate, by Java's names or OpenSSL's; empty leaves OpenSSL's choice.
ssl.client.auth string =none {required,requested,none} @broker
    Whether clients show a certificate: required, requested or none.
ssl.enabled.protocols list =TLSv1.2,TLSv1.3 @broker
    Versions of TLS that are served.
ssl.endpoint.identification.algorithm string =https @broker
    Whether other brokers must have a certificate for the host they advertise (https); empty: they need not.
ssl.key.password password @broker
    Password of the private key, if it is encrypted.
ssl.keystore.certificate.chain password @broker
    The broker's certificate chain in PEM, together with ssl.keystore.key.
ssl.keystore.key password @broker
    The broker's private key in PEM.
ssl.keystore.location string @broker
    File with the broker's private key and certificate chain; read again when it changes.
ssl.keystore.password password @broker
    Password of a keystore of type PKCS12.
ssl.keystore.type string =JKS @broker
    PEM or PKCS12; where it is not set, what the file holds decides.
ssl.principal.mapping.rules string =DEFAULT
    How the subject of a client's certificate becomes a principal.
ssl.truststore.certificates password @broker
    Certificates in PEM that clients' certificates are signed with.
ssl.truststore.location string @broker
    File with certificates that clients' certificates are signed with; read again when it changes.
ssl.truststore.password password @broker
    Password of a truststore of type PKCS12.
ssl.truststore.type string =JKS @broker
    PEM or PKCS12; where it is not set, what the file holds decides.
telemetry.max.bytes int =1048576 >=1
    The most bytes of metrics that a client may push at once, as sent and unpacked.
transaction.max.timeout.ms int =900000 >=1
    The longest timeout that a transactional producer may ask for.
transaction.partition.verification.enable bool =true @cluster
    Whether a partition asks the coordinator about a transaction it did not know.
transaction.remove.expired.transaction.cleanup.interval.ms int =3600000 >=1
    Pause between two looks for transactional ids to forget.
transaction.state.log.min.isr int =2 >=1
    Written to the configs of __transaction_state.
transaction.state.log.num.partitions int =50 >=1
    Partitions of __transaction_state; fixed once the topic exists.
transaction.state.log.replication.factor short =3 >=1
    Replicas of __transaction_state in a cluster whose leaders move, as far as there are brokers.
transaction.state.log.segment.bytes int =104857600 >=1
    Segment size of __transaction_state.
transactional.id.expiration.ms int =604800000 >=1
    How long an idle transactional id is remembered.
""")  # noqa: E501

_OWN = read_table("""
penstock.acks.all.flush bool =true
    Whether acks=all is answered after the records are on the disk; false answers from the page cache, as Kafka does.
penstock.authentication.timeout.ms int =30000 >=1
    How long a client may take to authenticate, its TLS handshake included.
penstock.metrics.listen string =
    Address as host:port of metrics and health over HTTP, beyond loopback over TLS with a login; empty serves none.
penstock.metrics.partitions bool =false @cluster
    Whether /metrics has single partitions beside the sums for their topics.
penstock.metrics.series.max int =100000 >=1 @cluster
    How many series one metric may have; the rest is left out, and counted in penstock_metrics_left_out_series.
penstock.otlp.endpoint string =
    Address of a receiver of OTLP over HTTP that metrics are exported to, like http://127.0.0.1:4318; empty: none.
penstock.otlp.interval.ms int =15000 >=100
    Pause between two exports of metrics.
penstock.request.slow.ms int =1000 >=-1 @cluster
    With metrics, a request that takes longer than this, its wait for records not counted, is logged; -1 logs none.
penstock.share.flush.interval.ms int =100 >=0
    An acknowledgement of a share group is on the disk at most this long after it was confirmed; 0 confirms it then.
penstock.store.cache.bytes long =4294967296 >=1
    With --store, room on the disk for segments that are in the object store too.
penstock.store.delete.delay.ms long =120000 >=0
    With --store, how long an object that nothing names any more is kept; readers may still know it.
penstock.store.orphan.age.ms long =300000 >=1
    With --store, how old an object whose commit never came must be before it is removed.
penstock.store.quiet.ms int =5 >=0
    With --store, the gathering of larger appends ends after this long without an append.
penstock.store.tail.age.ms long =3600000 >=1
    With --store, records that have been in no stored segment for this long are moved into one.
penstock.store.tail.bytes long =67108864 >=1
    With --store, a partition's records are moved into a stored segment when this many bytes are in none.
penstock.store.tail.extents int =512 >=1
    With --store, the same when they are in this many pieces in the store, or 16 times as many in PostgreSQL.
penstock.store.tails.bytes long =536870912 >=1
    With --store, the same for the largest partitions when this many bytes of all that a broker leads are in none.
penstock.store.window.ms int =250 >=1
    With --store, how long larger appends are gathered into one object; small ones are committed at once.
penstock.unauthenticated.bytes.max long =67108864 >=1
    Memory for frames that are arriving from clients that are not authenticated.
penstock.unauthenticated.connections.max int =1000 >=1
    Connections of clients that are not authenticated yet; one more closes the oldest of the address that has most.
penstock.unauthenticated.connections.max.per.ip int =500 >=1
    The same for one address; one more closes its oldest.
""")

BROKER = {definition.name: definition for definition in sorted(_OBEYED + _OWN + UNUSED, key=lambda each: each.name)}

# Configs that say the same in different units, the one that counts first. Setting one at run time replaces the others.
SYNONYMS: tuple[tuple[str, ...], ...] = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
)
