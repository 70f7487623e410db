"""The broker's configs that Apache Kafka 4.3 has and Penstock has no use for.

They are accepted, checked and described like all others, so that Kafka's own config files work, and reported once when
somebody sets one. A config that comes into use moves to `broker` and gets a sentence of documentation.
"""

from __future__ import annotations

from penstock.broker.config.definitions import read_table

UNUSED = read_table("""
add.partitions.to.txn.retry.backoff.ms int =20 >=1
alter.config.policy.class.name class
alter.log.dirs.replication.quota.window.num int =11 >=1
alter.log.dirs.replication.quota.window.size.seconds int =1 >=1
background.threads int =10 >=1 @cluster
client.quota.callback.class class
controller.performance.always.log.threshold.ms long =2000 >=0 internal
controller.performance.sample.period.ms long =60000 >=100 internal
controller.quorum.append.linger.ms int =25 >=0
controller.quorum.auto.join.enable bool =false
controller.quorum.bootstrap.servers list =
controller.quorum.election.backoff.max.ms int =1000 >=0
controller.quorum.election.timeout.ms int =1000 >=0
controller.quorum.fetch.max.bytes int =1048576 >=1
controller.quorum.fetch.snapshot.max.bytes int =1048576 >=1
controller.quorum.fetch.timeout.ms int =2000 >=0
controller.quorum.request.timeout.ms int =2000 >=0
controller.quorum.retry.backoff.ms int =20 >=0
controller.quorum.voters list =
controller.socket.timeout.ms int =30000
cordoned.log.dirs list = @broker
create.topic.policy.class.name class
delegation.token.expiry.check.interval.ms long =3600000 >=1
delegation.token.expiry.time.ms long =86400000 >=1
delegation.token.max.lifetime.ms long =604800000 >=1
delegation.token.secret.key password
delete.records.purgatory.purge.interval.requests int =1
early.start.listeners list
fetch.purgatory.purge.interval.requests int =1000
follower.fetch.last.tiered.offset.enable bool =false @cluster
group.coordinator.append.linger.ms int =-1 >=-1
group.coordinator.background.threads int =2 >=1
group.coordinator.cached.buffer.max.bytes int =1048588 >=524288 @cluster
group.coordinator.threads int =4 >=1
group.share.assignment.interval.ms int =1000 >=0 @cluster
group.share.assignors list =simple
group.share.initialize.retry.interval.ms int =30000 >=1 internal
group.share.max.assignment.interval.ms int =15000 >=0
group.share.min.assignment.interval.ms int =0 >=0
group.share.persister.class.name string =org.apache.kafka.server.share.persister.DefaultStatePersister internal
group.streams.assignment.interval.ms int =1000 >=0 @cluster
group.streams.heartbeat.interval.ms int =5000 >=1
group.streams.initial.rebalance.delay.ms int =3000 >=0
group.streams.max.assignment.interval.ms int =15000 >=0
group.streams.max.heartbeat.interval.ms int =15000 >=1
group.streams.max.session.timeout.ms int =60000 >=1
group.streams.max.size int =2147483647 >=1
group.streams.max.standby.replicas int =2 >=0
group.streams.min.assignment.interval.ms int =0 >=0
group.streams.min.heartbeat.interval.ms int =5000 >=1
group.streams.min.session.timeout.ms int =45000 >=1
group.streams.num.standby.replicas int =0 >=0
group.streams.session.timeout.ms int =45000 >=1
initial.broker.registration.timeout.ms int =60000
internal.metadata.delete.delay.millis long =60000 internal
internal.metadata.log.segment.bytes int internal
internal.metadata.max.batch.size.in.bytes int =8388608 internal
kafka.metrics.polling.interval.secs int =10 >=1
kafka.metrics.reporters list =
leader.imbalance.check.interval.seconds long =300 >=1
log.cleaner.io.buffer.load.factor double =0.9 @cluster
log.cleaner.io.buffer.size int =524288 >=0 @cluster
log.cleaner.threads int =1 >=0 @cluster
log.dir.failure.timeout.ms long =30000 >=1
log.flush.offset.checkpoint.interval.ms int =60000 >=0
log.flush.start.offset.checkpoint.interval.ms int =60000 >=0
log.initial.task.delay.ms long =30000 >=0 internal
log.local.retention.bytes long =-2 >=-2 @cluster
log.local.retention.ms long =-2 >=-2 @cluster
log.preallocate bool =false @cluster
metadata.log.dir string
metadata.log.max.record.bytes.between.snapshots long =20971520 >=1
metadata.log.max.snapshot.interval.ms long =3600000 >=0
metadata.log.segment.bytes int =1073741824 >=8388608
metadata.log.segment.ms long =604800000
metadata.max.idle.interval.ms int =500 >=0
metadata.max.retention.bytes long =104857600
metadata.max.retention.ms long =604800000
metric.reporters list =org.apache.kafka.common.metrics.JmxReporter @cluster
metrics.num.samples int =2 >=1
metrics.recording.level string =INFO
metrics.sample.window.ms long =30000 >=1
num.io.threads int =8 >=1 @cluster
num.network.threads int =3 >=1 @cluster
num.recovery.threads.per.data.dir int =2 >=1 @cluster
num.replica.alter.log.dirs.threads int
num.replica.fetchers int =1 >=1 @cluster
offsets.commit.timeout.ms int =5000 >=1
offsets.load.buffer.size int =5242880 >=1
offsets.topic.compression.codec int =0
principal.builder.class class =org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder @broker
process.roles list {broker,controller}
producer.purgatory.purge.interval.requests int =1000
queued.max.request.bytes long =-1
queued.max.requests int =500 >=1
remote.fetch.max.wait.ms int =500 >=1 @cluster
remote.list.offsets.request.timeout.ms long =30000 >=1 @cluster
remote.log.index.file.cache.total.size.bytes long =1073741824 >=1 @cluster
remote.log.index.file.cache.ttl.ms long =900000 >=-1 internal
remote.log.manager.copier.thread.pool.size int =10 >=1 @cluster
remote.log.manager.copy.max.bytes.per.second long =9223372036854775807 >=1 @cluster
remote.log.manager.copy.quota.window.num int =11 >=1
remote.log.manager.copy.quota.window.size.seconds int =1 >=1
remote.log.manager.expiration.thread.pool.size int =10 >=1 @cluster
remote.log.manager.fetch.max.bytes.per.second long =9223372036854775807 >=1 @cluster
remote.log.manager.fetch.quota.window.num int =11 >=1
remote.log.manager.fetch.quota.window.size.seconds int =1 >=1
remote.log.manager.follower.thread.pool.size int =2 >=1 @cluster
remote.log.manager.task.interval.ms long =30000 >=1
remote.log.manager.task.retry.backoff.max.ms long =30000 >=1 internal
remote.log.manager.task.retry.backoff.ms long =500 >=1 internal
remote.log.manager.task.retry.jitter double =0.2 0..0.5 internal
remote.log.manager.thread.pool.size int =2 >=1
remote.log.metadata.custom.metadata.max.bytes int =128 >=0
remote.log.metadata.manager.class.name string =org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager non-empty
remote.log.metadata.manager.class.path string
remote.log.metadata.manager.impl.prefix string =rlmm.config. non-empty
remote.log.metadata.manager.listener.name string non-empty
remote.log.reader.max.pending.tasks int =100 >=1
remote.log.reader.threads int =10 >=1 @cluster
remote.log.storage.manager.class.name string non-empty
remote.log.storage.manager.class.path string
remote.log.storage.manager.impl.prefix string =rsm.config. non-empty
remote.log.storage.system.enable bool =false
replica.fetch.backoff.ms int =1000 >=0
replica.fetch.max.bytes int =1048576 >=0
replica.fetch.min.bytes int =1
replica.fetch.response.max.bytes int =10485760 >=0
replica.fetch.wait.max.ms int =500
replica.high.watermark.checkpoint.interval.ms long =5000
replica.lag.time.max.ms long =30000
replica.selector.class string
replica.socket.receive.buffer.bytes int =65536
replica.socket.timeout.ms int =30000
replication.quota.window.num int =11 >=1
replication.quota.window.size.seconds int =1 >=1
request.timeout.ms int =30000
sasl.client.callback.handler.class class
sasl.kerberos.kinit.cmd string =/usr/bin/kinit @broker
sasl.kerberos.min.time.before.relogin long =60000 @broker
sasl.kerberos.principal.to.local.rules list =DEFAULT @broker
sasl.kerberos.service.name string @broker
sasl.kerberos.ticket.renew.jitter double =0.05 @broker
sasl.kerberos.ticket.renew.window.factor double =0.8 @broker
sasl.login.callback.handler.class class
sasl.login.class class
sasl.login.connect.timeout.ms int
sasl.login.read.timeout.ms int
sasl.login.refresh.buffer.seconds short =300 @broker
sasl.login.refresh.min.period.seconds short =60 @broker
sasl.login.refresh.window.factor double =0.8 @broker
sasl.login.refresh.window.jitter double =0.05 @broker
sasl.login.retry.backoff.max.ms long =10000
sasl.login.retry.backoff.ms long =100
sasl.mechanism.controller.protocol string =GSSAPI
sasl.oauthbearer.assertion.algorithm string =RS256 {ES256,RS256} any-case
sasl.oauthbearer.assertion.claim.aud string
sasl.oauthbearer.assertion.claim.exp.seconds int =300 0..86400
sasl.oauthbearer.assertion.claim.iss string
sasl.oauthbearer.assertion.claim.jti.include bool =false
sasl.oauthbearer.assertion.claim.nbf.seconds int =60 0..3600
sasl.oauthbearer.assertion.claim.sub string
sasl.oauthbearer.assertion.file string
sasl.oauthbearer.assertion.private.key.file string
sasl.oauthbearer.assertion.private.key.passphrase password
sasl.oauthbearer.assertion.template.file string
sasl.oauthbearer.client.credentials.client.id string
sasl.oauthbearer.client.credentials.client.secret password
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms long =10000
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms long =100
sasl.oauthbearer.jwt.retriever.class class =org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever
sasl.oauthbearer.jwt.validator.class class =org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator
sasl.oauthbearer.scope string
sasl.oauthbearer.token.endpoint.url string
sasl.server.callback.handler.class class
security.providers string
server.max.startup.time.ms long =9223372036854775807 >=0 internal
share.coordinator.append.linger.ms int =-1 >=-1
share.coordinator.cached.buffer.max.bytes int =1048588 >=524288 @cluster
share.coordinator.load.buffer.size int =5242880 >=1
share.coordinator.state.topic.compression.codec int =0
share.coordinator.threads int =1 >=1
share.coordinator.write.timeout.ms int =5000 >=1
share.fetch.purgatory.purge.interval.requests int =1000
socket.connection.setup.timeout.max.ms long =30000
socket.connection.setup.timeout.ms long =10000
ssl.allow.dn.changes bool =false
ssl.allow.san.changes bool =false
ssl.engine.factory.class class @broker
ssl.keymanager.algorithm string =SunX509 @broker
ssl.protocol string =TLSv1.3 @broker
ssl.provider string @broker
ssl.secure.random.implementation string @broker
ssl.trustmanager.algorithm string =PKIX @broker
transaction.abort.timed.out.transaction.cleanup.interval.ms int =10000 >=1
transaction.state.log.load.buffer.size int =5242880 >=1
transaction.two.phase.commit.enable bool =false
unclean.leader.election.enable bool =false @cluster
unclean.leader.election.interval.ms long =300000 >=1 internal
unstable.api.versions.enable bool =false internal
unstable.feature.versions.enable bool =false internal
""")  # noqa: E501
