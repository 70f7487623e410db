"""The broker's configs that Penstock obeys, and its own.

Names, types, defaults, bounds and what can be changed at run time are those of Apache Kafka 4.3.
"""

from __future__ import annotations

from penstock.broker.config.broker_unused import UNUSED
from penstock.broker.config.definitions import read_table

_OBEYED = read_table("""
add.partitions.to.txn.retry.backoff.max.ms int =100 >=0
    How long a response may be delayed while the previous transaction of the same id is being completed.
advertised.listeners list
    The addresses given to clients, where they differ from the listeners.
allow.everyone.if.no.acl.found custom =false internal
    Whether everybody may do everything with a resource that has no ACL.
authorizer.class.name string =
    The authorizer: empty for none, or org.apache.kafka.metadata.authorizer.StandardAuthorizer.
auto.create.topics.enable bool =true
    Whether a topic is created when a client first requests it.
auto.leader.rebalance.enable bool =true
    Whether brokers of a cluster hand partitions to brokers that lead fewer, and back to preferred leaders.
broker.heartbeat.interval.ms int =2000
    How often a broker of a cluster renews its lease; at least six times within broker.session.timeout.ms.
broker.id int =-1
    The older name of node.id.
broker.rack string
    The rack or availability zone of the broker. Clients see it in metadata; a cluster spreads replicas over racks.
broker.session.timeout.ms int =9000
    The lease of a broker in a cluster: how long the others wait for a silent broker before they take over.
compression.gzip.level int =-1 gzip-level @cluster
    Level at which the broker compresses batches with gzip.
compression.lz4.level int =9 1..17 @cluster
    Level at which the broker compresses batches with LZ4; 9 is the fast compressor.
compression.type string =producer {uncompressed,zstd,lz4,snappy,gzip,producer} @cluster
    The codec in which batches are stored; producer keeps what was sent.
compression.zstd.level int =3 -131072..22 @cluster
    Level at which the broker compresses batches with zstd.
config.providers list = @cluster
    Names of providers that resolve variables in the values of other configs, at the start.
connection.failed.authentication.delay.ms int =100 >=0
    How long the response to a failed authentication is delayed.
connections.max.idle.ms long =600000
    A connection is closed after this long without a request.
connections.max.reauth.ms long =0
    How long a session lasts before its client must reauthenticate; 0 means without limit.
controlled.shutdown.enable bool =true
    Whether a broker of a cluster hands over its partitions before it stops; otherwise the others take over afterwards.
controller.listener.names list
    Listeners of Kafka's controllers; none is opened, because broker and controller are one process.
controller.quota.window.num int =11 >=1
    Number of windows for which a client may save up unused mutations.
controller.quota.window.size.seconds int =1 >=1
    Length of one window of the quota for controller mutations.
default.replication.factor int =1
    Replication factor of topics created without one, in a cluster with --store; at most the number of brokers.
delete.topic.enable bool =true
    Whether topics may be deleted.
errors.deadletterqueue.auto.create.topics.enable bool =false @cluster internal
    Whether the dead-letter topic of a share group is created when it is first needed.
errors.deadletterqueue.topic.name.prefix string =dlq. @cluster internal
    Prefix that the name of a dead-letter topic must have.
fetch.max.bytes int =57671680 >=1024
    The most bytes in the response to one fetch; a larger first batch is returned all the same.
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
    How often subscriptions by pattern are matched against the topics again.
group.consumer.session.timeout.ms int =45000 >=1
    Silence after which a member of a consumer group is removed.
group.coordinator.rebalance.protocols list =classic,consumer,streams rebalance-protocols
    Group protocols that are served: classic always, consumer if it is named; share groups depend on share.version.
group.initial.rebalance.delay.ms int =3000
    How long the first member of an empty classic group waits for others.
group.max.session.timeout.ms int =1800000
    Upper bound of the session timeout that a classic member may request.
group.max.size int =2147483647 >=1
    Members that a classic group may have.
group.min.session.timeout.ms int =6000
    Lower bound of the session timeout that a classic member may request.
group.share.delivery.count.limit int =5 2..10
    Number of deliveries after which a record is given up.
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
    How long an acquired record stays locked for its consumer.
group.share.session.timeout.ms int =45000 >=1
    Silence after which a member of a share group is removed.
inter.broker.listener.name string
    The listener through which brokers that share a catalog reach each other; by default the first one.
listener.security.protocol.map string =SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT @broker
    The security protocol of each listener, as NAME:PROTOCOL, separated by commas.
listeners list =PLAINTEXT://:9092 @broker
    Addresses to listen on, as NAME://host:port.
log.cleaner.backoff.ms long =15000 >=0 @cluster
    Interval between two checks for logs to compact.
log.cleaner.dedupe.buffer.size long =134217728 @cluster
    Memory for the map of keys while compacting.
log.cleaner.delete.retention.ms long =86400000 >=0 @cluster
    How long a tombstone stays readable after its key was compacted.
log.cleaner.enable bool =true
    Whether logs are compacted at all.
log.cleaner.io.max.bytes.per.second double =1.7976931348623157E308 @cluster
    Bytes that compaction may read and write per second.
log.cleaner.max.compaction.lag.ms long =9223372036854775807 >=1 @cluster
    Age by which a record must have been compacted.
log.cleaner.min.cleanable.ratio double =0.5 0..1 @cluster
    Fraction of a log that must be uncompacted before the log is compacted.
log.cleaner.min.compaction.lag.ms long =0 >=0 @cluster
    Age below which a record is not compacted.
log.cleanup.policy list =delete {compact,delete} @cluster
    What happens to old segments: delete, compact, or both.
log.dir list =/tmp/kafka-logs
    Same as log.dirs.
log.dirs list
    The data folder; Kafka's name for the option --data.
log.flush.interval.messages long =9223372036854775807 >=1 @cluster
    Number of records after which a log is flushed to the disk.
log.flush.interval.ms long @cluster
    Time after which a log is flushed to the disk.
log.flush.scheduler.interval.ms long =9223372036854775807
    Used for log.flush.interval.ms if that is not set.
log.index.interval.bytes int =4096 >=0 @cluster
    Bytes of log between two entries of the offset index.
log.index.size.max.bytes int =10485760 >=4 @cluster
    The largest index of a segment.
log.message.timestamp.after.max.ms long =3600000 >=0 @cluster
    How far ahead of the broker's clock a record's timestamp may be.
log.message.timestamp.before.max.ms long =9223372036854775807 >=0 @cluster
    How far behind the broker's clock a record's timestamp may be.
log.message.timestamp.type string =CreateTime {CreateTime,LogAppendTime} @cluster
    The timestamp of a record: CreateTime is the producer's, LogAppendTime the broker's.
log.retention.bytes long =-1 @cluster
    Size of a partition above which its oldest segments are deleted; -1 means without limit.
log.retention.check.interval.ms long =300000 >=1
    Interval between two checks for segments to delete.
log.retention.hours int =168
    Age in hours at which segments are deleted.
log.retention.minutes int
    Age in minutes at which segments are deleted; takes precedence over log.retention.hours.
log.retention.ms long @cluster
    Age in ms at which segments are deleted, -1 for never; takes precedence over log.retention.minutes.
log.roll.hours int =168 >=1
    Age in hours at which a new segment is started.
log.roll.jitter.hours int =0 >=0
    The most hours by which the start of a new segment is randomly delayed.
log.roll.jitter.ms long @cluster
    The most ms by which the start of a new segment is randomly delayed; takes precedence over log.roll.jitter.hours.
log.roll.ms long @cluster
    Age in ms at which a new segment is started; takes precedence over log.roll.hours.
log.segment.bytes int =1073741824 >=1048576 @cluster
    Size at which a new segment is started.
log.segment.delete.delay.ms long =60000 >=0 @cluster
    How long the file of a deleted segment is kept for readers that still use it.
max.connection.creation.rate int =2147483647 >=0 @cluster
    Connections accepted per second, by the broker or, with a listener's prefix, by that listener.
max.connections int =2147483647 >=0 @cluster
    The most connections at a time.
max.connections.per.ip int =2147483647 >=0 @cluster
    The most connections at a time from one address.
max.connections.per.ip.overrides string = numbers-of-connections @cluster
    Exceptions to max.connections.per.ip, as address:number, separated by commas.
max.incremental.fetch.session.cache.slots int =1000 >=0
    The most fetch sessions that are remembered at a time.
max.request.partition.size.limit int =2000 >=1
    The most partitions in one DescribeTopicPartitions response.
message.max.bytes int =1048588 >=0 @cluster
    The largest batch that is accepted, as stored.
min.insync.replicas int =1 >=1 @cluster
    In a cluster with --store, how many replicas must be in sync for acks=all; a topic may set its own.
node.id int >=0
    The id of this broker in its cluster.
num.partitions int =1 >=1
    Number of partitions of a topic that is created without one.
offset.metadata.max.bytes int =4096
    The longest metadata that a consumer may store with an offset.
offsets.retention.check.interval.ms long =600000 >=1
    Interval between two checks for expired offsets.
offsets.retention.minutes int =10080 >=1
    How long the offsets of an empty group are kept.
offsets.topic.num.partitions int =50 >=1
    Partitions of __consumer_offsets; fixed once the topic exists.
offsets.topic.replication.factor short =3 >=1
    Replication factor of __consumer_offsets in a cluster with --store; at most the number of brokers.
offsets.topic.segment.bytes int =104857600 >=1
    Segment size of __consumer_offsets.
producer.id.expiration.check.interval.ms int =600000 >=1 internal
    Interval between two checks for producers to forget.
producer.id.expiration.ms int =86400000 >=1 @cluster
    How long a partition remembers an idle producer's sequence numbers.
quota.window.num int =11 >=1
    Windows over which the use of a quota is measured, the current one included.
quota.window.size.seconds int =1 >=1
    Length of one window; also the longest wait imposed by a quota for requests or connections.
sasl.enabled.mechanisms list =GSSAPI @broker
    SASL mechanisms of listeners; if it is not set, SCRAM, and over TLS also PLAIN.
sasl.jaas.config password @broker
    Users and passwords for PLAIN (user_NAME options); without it, PLAIN uses the SCRAM users.
sasl.mechanism.inter.broker.protocol string =GSSAPI @broker
    SCRAM-SHA-256 or SCRAM-SHA-512, with which brokers authenticate to each other; with GSSAPI they choose.
sasl.oauthbearer.clock.skew.seconds int =30
    How far the clock of the tokens' issuer may differ from the broker's.
sasl.oauthbearer.expected.audience list =
    Audiences of which a token must name one.
sasl.oauthbearer.expected.issuer string
    The issuer that a token must have.
sasl.oauthbearer.jwks.endpoint.refresh.ms long =3600000
    How often the keys that sign tokens are fetched again.
sasl.oauthbearer.jwks.endpoint.url string
    Address of the keys that sign tokens: file://, http:// or https://.
sasl.oauthbearer.scope.claim.name string =scope
    The claim of a token that names its scopes.
sasl.oauthbearer.sub.claim.name string =sub
    The claim of a token that names its user.
sasl.server.max.receive.size int =524288
    The largest frame before a client has authenticated.
security.inter.broker.protocol string =PLAINTEXT {PLAINTEXT,SSL,SASL_PLAINTEXT,SASL_SSL}
    The listener through which brokers reach each other, if inter.broker.listener.name is not set.
share.coordinator.cold.partition.snapshot.interval.ms int =300000 >=1 internal
    Time without a write after which the state of a share-partition gets a fresh snapshot.
share.coordinator.snapshot.update.records.per.snapshot int =500 0..500
    Updates of a share-partition's state between two snapshots.
share.coordinator.state.topic.min.isr short =2 >=1
    Written to the configs of __share_group_state.
share.coordinator.state.topic.num.partitions int =50 >=1
    Partitions of __share_group_state; fixed once the topic exists.
share.coordinator.state.topic.prune.interval.ms int =300000 >=1 internal
    How often obsolete records of __share_group_state are deleted.
share.coordinator.state.topic.replication.factor short =3 >=1
    Replication factor of __share_group_state in a cluster with --store; at most the number of brokers.
share.coordinator.state.topic.segment.bytes int =104857600 >=1
    Segment size of __share_group_state.
socket.listen.backlog.size int =1024 >=1
    Connections that may wait to be accepted.
socket.receive.buffer.bytes int =-1
    Receive buffer of a socket; -1 leaves it to the operating system.
socket.request.max.bytes int =104857600 >=1
    The largest request that is accepted; a larger one closes the connection.
socket.send.buffer.bytes int =409600
    Send buffer of a socket; -1 leaves it to the operating system.
super.users custom = internal principals
    Principals that may do everything, separated by semicolons.
ssl.cipher.suites list = @broker
    Cipher suites for TLS, under Java's or OpenSSL's names; empty for OpenSSL's defaults.
ssl.client.auth string =none {required,requested,none} @broker
    Whether clients present a certificate: required, requested or none.
ssl.enabled.protocols list =TLSv1.2,TLSv1.3 @broker
    Versions of TLS that are served.
ssl.endpoint.identification.algorithm string =https @broker
    https: other brokers need a certificate for the host that they advertise; empty: they do not.
ssl.key.password password @broker
    Password of the private key, if it is encrypted.
ssl.keystore.certificate.chain password @broker
    The broker's certificate chain in PEM, together with ssl.keystore.key.
ssl.keystore.key password @broker
    The broker's private key in PEM.
ssl.keystore.location string @broker
    File with the broker's private key and certificate chain; reloaded when it changes.
ssl.keystore.password password @broker
    Password of a keystore of type PKCS12.
ssl.keystore.type string =JKS @broker
    PEM or PKCS12; if it is not set, the file's contents decide.
ssl.principal.mapping.rules string =DEFAULT
    Rules that turn the subject of a client's certificate into a principal.
ssl.truststore.certificates password @broker
    Certificates of the authorities of clients' certificates, in PEM.
ssl.truststore.location string @broker
    File with the certificates of the authorities of clients' certificates; reloaded when it changes.
ssl.truststore.password password @broker
    Password of a truststore of type PKCS12.
ssl.truststore.type string =JKS @broker
    PEM or PKCS12; if it is not set, the file's contents decide.
telemetry.max.bytes int =1048576 >=1
    The most bytes of metrics in one push of a client, compressed and uncompressed.
transaction.max.timeout.ms int =900000 >=1
    The longest timeout that a transactional producer may request.
transaction.partition.verification.enable bool =true @cluster
    Whether a partition verifies an unknown transaction with its coordinator.
transaction.remove.expired.transaction.cleanup.interval.ms int =3600000 >=1
    Interval between two checks for transactional ids to forget.
transaction.state.log.min.isr int =2 >=1
    Written to the configs of __transaction_state.
transaction.state.log.num.partitions int =50 >=1
    Partitions of __transaction_state; fixed once the topic exists.
transaction.state.log.replication.factor short =3 >=1
    Replication factor of __transaction_state in a cluster with --store; at most the number of brokers.
transaction.state.log.segment.bytes int =104857600 >=1
    Segment size of __transaction_state.
transactional.id.expiration.ms int =604800000 >=1
    How long an idle transactional id is remembered.
""")  # noqa: E501

_OWN = read_table("""
penstock.acks.all.flush bool =true
    Whether acks=all is answered once the records are on disk; false answers from the page cache, as Kafka does.
penstock.authentication.timeout.ms int =30000 >=1
    How long a client may take to authenticate, its TLS handshake included.
penstock.metrics.listen string =
    Address (host:port) of metrics and health over HTTP; beyond loopback over TLS with a login. Empty for none.
penstock.metrics.partitions bool =false @cluster
    Whether /metrics has single partitions as well as sums by topic.
penstock.metrics.series.max int =100000 >=1 @cluster
    The most series of one metric; the rest is left out, and counted in penstock_metrics_left_out_series.
penstock.otlp.endpoint string =
    Address to which metrics are exported by OTLP over HTTP, such as http://127.0.0.1:4318. Empty for none.
penstock.otlp.interval.ms int =15000 >=100
    Interval between two exports of metrics.
penstock.request.slow.ms int =1000 >=-1 @cluster
    With metrics, requests that take longer (without the wait for records) are logged; -1 logs none.
penstock.share.flush.interval.ms int =100 >=0
    Acknowledgements of share groups are on disk at most this long after they are confirmed; with 0, before that.
penstock.store.cache.bytes long =4294967296 >=1
    With --store, disk space for segments that are also in the object store.
penstock.store.delete.delay.ms long =120000 >=0
    With --store, how long an object that is no longer referenced is kept, because readers may still use it.
penstock.store.orphan.age.ms long =300000 >=1
    With --store, how old an object that was never committed must be before it is removed.
penstock.store.quiet.ms int =5 >=0
    With --store, larger appends are no longer gathered after this long without a new append.
penstock.store.tail.age.ms long =3600000 >=1
    With --store, age at which records that are in no stored segment are moved into one.
penstock.store.tail.bytes long =67108864 >=1
    With --store, bytes outside stored segments at which a partition's records are moved into one.
penstock.store.tail.extents int =512 >=1
    With --store, the same as a number of extents in the store, or 16 times as many in PostgreSQL.
penstock.store.tails.bytes long =536870912 >=1
    With --store, the same as a sum over all partitions of a broker; the largest partitions are moved first.
penstock.store.window.ms int =250 >=1
    With --store, how long larger appends are gathered into one object; small ones are committed at once.
penstock.unauthenticated.bytes.max long =67108864 >=1
    Memory for incoming frames of clients that have not authenticated.
penstock.unauthenticated.connections.max int =1000 >=1
    The most connections that have not authenticated; one more closes the oldest of the address with the most.
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
