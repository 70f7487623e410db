/* One client, two brokers: the load generator of the benchmark.
 *
 * It stands on librdkafka and does as little as possible per message, because the client shares the machine with the
 * broker it measures: payloads are not copied, deliveries report only errors, consumed messages are counted in a
 * callback and dropped.
 *
 *   load produce bootstrap=HOST:PORT topic=NAME messages=N size=BYTES [partitions=N] [property=value ...]
 *   load consume bootstrap=HOST:PORT topic=NAME messages=N size=BYTES [partitions=N] [property=value ...]
 *
 * With keys=N the messages that are produced have N different keys, in turn; without it they have none.
 * Every other name=value is a librdkafka property (acks=1, linger.ms=5, batch.num.messages=1, ...).
 * One JSON object on one line goes to stdout. The clock starts after the connection and the metadata are there and
 * stops when the last message is acknowledged (produce) or counted (consume).
 */
#include <librdkafka/rdkafka.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define BATCH 500
#define STALL_SECONDS 60
#define KEY_SIZE 10

struct load {
        const char *bootstrap;
        const char *topic;
        int64_t messages;
        size_t size;
        int32_t partitions;
        int32_t keys;
};

struct progress {
        int64_t done;
        int64_t bytes;
        int64_t errors;
        rd_kafka_resp_err_t last_error;
};

static void die(const char *what, const char *why) {
        fprintf(stderr, "load: %s: %s\n", what, why);
        exit(1);
}

static double now_seconds(void) {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double cpu_seconds(void) {
        struct rusage u;
        getrusage(RUSAGE_SELF, &u);
        return (double)u.ru_utime.tv_sec + (double)u.ru_stime.tv_sec +
               ((double)u.ru_utime.tv_usec + (double)u.ru_stime.tv_usec) / 1e6;
}

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque) {
        struct progress *progress = opaque;
        (void)rk;
        progress->errors++; /* only errors are reported */
        progress->last_error = message->err;
}

static void on_message(rd_kafka_message_t *message, void *opaque) {
        struct progress *progress = opaque;
        if (message->err) {
                if (message->err != RD_KAFKA_RESP_ERR__PARTITION_EOF) {
                        progress->errors++;
                        progress->last_error = message->err;
                }
                return;
        }
        progress->done++;
        progress->bytes += (int64_t)message->len;
}

static void report(const struct load *load, double seconds, double cpu) {
        printf("{\"messages\": %lld, \"size\": %zu, \"seconds\": %.6f, \"messages_per_s\": %.1f, \"mb_per_s\": %.2f, "
               "\"client_cpu_s\": %.3f}\n",
               (long long)load->messages, load->size, seconds, (double)load->messages / seconds,
               (double)load->messages * (double)load->size / 1e6 / seconds, cpu);
}

static void wait_for_metadata(rd_kafka_t *rk, rd_kafka_topic_t *topic) {
        const struct rd_kafka_metadata *metadata;
        rd_kafka_resp_err_t err = rd_kafka_metadata(rk, 0, topic, &metadata, 30000);
        if (err)
                die("metadata", rd_kafka_err2str(err));
        rd_kafka_metadata_destroy(metadata);
}

static void produce(const struct load *load, rd_kafka_t *rk, rd_kafka_topic_t *topic, struct progress *progress) {
        char *payload = malloc(load->size);
        rd_kafka_message_t *batch = calloc(BATCH, sizeof(*batch));
        char (*keys)[KEY_SIZE + 1] = calloc(BATCH, sizeof(*keys));
        int64_t queued = 0;
        int32_t partition = 0;
        double start, cpu, moved;

        memset(payload, 'x', load->size);
        wait_for_metadata(rk, topic);
        start = moved = now_seconds();
        cpu = cpu_seconds();
        while (queued < load->messages && !progress->errors) {
                int count = load->messages - queued < BATCH ? (int)(load->messages - queued) : BATCH;
                int accepted, i;
                for (i = 0; i < count; i++) {
                        batch[i].payload = payload;
                        batch[i].len = load->size;
                        batch[i].err = RD_KAFKA_RESP_ERR_NO_ERROR;
                        batch[i]._private = NULL;
                        if (load->keys) {
                                snprintf(keys[i], sizeof(keys[i]), "%0*u", KEY_SIZE, (unsigned)((queued + i) % load->keys));
                                batch[i].key = keys[i];
                                batch[i].key_len = KEY_SIZE;
                        }
                }
                accepted = rd_kafka_produce_batch(topic, partition, 0, batch, count); /* keys are copied */
                queued += accepted;
                if (accepted < count && batch[accepted].err != RD_KAFKA_RESP_ERR__QUEUE_FULL)
                        die("produce", rd_kafka_err2str(batch[accepted].err));
                if (accepted == count)
                        partition = (partition + 1) % load->partitions;
                if (accepted)
                        moved = now_seconds();
                else if (now_seconds() - moved > STALL_SECONDS)
                        die("produce", "the broker acknowledged nothing for a minute");
                rd_kafka_poll(rk, accepted == count ? 0 : 1);
        }
        rd_kafka_flush(rk, STALL_SECONDS * 1000);
        if (rd_kafka_outq_len(rk) || progress->errors)
                die("produce", progress->errors ? rd_kafka_err2str(progress->last_error) : "messages left unsent");
        report(load, now_seconds() - start, cpu_seconds() - cpu);
        free(keys);
        free(batch);
        free(payload);
}

static void consume(const struct load *load, rd_kafka_t *rk, rd_kafka_topic_t *topic, struct progress *progress) {
        rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
        int32_t partition;
        double start, cpu, moved;

        wait_for_metadata(rk, topic);
        start = moved = now_seconds();
        cpu = cpu_seconds();
        for (partition = 0; partition < load->partitions; partition++)
                rd_kafka_consume_start_queue(topic, partition, RD_KAFKA_OFFSET_BEGINNING, queue);
        while (progress->done < load->messages && !progress->errors) {
                int64_t before = progress->done;
                rd_kafka_consume_callback_queue(queue, 100, on_message, progress);
                if (progress->done > before)
                        moved = now_seconds();
                else if (now_seconds() - moved > STALL_SECONDS)
                        die("consume", "nothing arrived for a minute");
        }
        if (progress->errors)
                die("consume", rd_kafka_err2str(progress->last_error));
        report(load, now_seconds() - start, cpu_seconds() - cpu);
        for (partition = 0; partition < load->partitions; partition++)
                rd_kafka_consume_stop(topic, partition);
        rd_kafka_queue_destroy(queue);
}

static void read_option(char *argument, struct load *load, rd_kafka_conf_t *conf) {
        char error[512];
        char *value = strchr(argument, '=');
        if (!value)
                die(argument, "expected name=value");
        *value++ = '\0';
        if (!strcmp(argument, "bootstrap"))
                load->bootstrap = value;
        else if (!strcmp(argument, "topic"))
                load->topic = value;
        else if (!strcmp(argument, "messages"))
                load->messages = atoll(value);
        else if (!strcmp(argument, "size"))
                load->size = (size_t)atoll(value);
        else if (!strcmp(argument, "partitions"))
                load->partitions = atoi(value);
        else if (!strcmp(argument, "keys"))
                load->keys = atoi(value);
        else if (rd_kafka_conf_set(conf, argument, value, error, sizeof(error)) != RD_KAFKA_CONF_OK)
                die(argument, error);
}

int main(int argc, char **argv) {
        struct load load = {.partitions = 1, .size = 100};
        struct progress progress = {0};
        rd_kafka_conf_t *conf = rd_kafka_conf_new();
        rd_kafka_topic_t *topic;
        rd_kafka_t *rk;
        char error[512];
        int producing, i;

        if (argc < 2 || (strcmp(argv[1], "produce") && strcmp(argv[1], "consume")))
                die("usage", "load produce|consume bootstrap=HOST:PORT topic=NAME messages=N size=BYTES [property=value ...]");
        producing = !strcmp(argv[1], "produce");
        for (i = 2; i < argc; i++)
                read_option(argv[i], &load, conf);
        if (!load.bootstrap || !load.topic || load.messages <= 0 || load.partitions <= 0)
                die("usage", "bootstrap, topic and messages are needed");
        rd_kafka_conf_set(conf, "bootstrap.servers", load.bootstrap, error, sizeof(error));
        rd_kafka_conf_set_opaque(conf, &progress);
        if (producing) {
                rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
                rd_kafka_conf_set(conf, "delivery.report.only.error", "true", error, sizeof(error));
        }
        rk = rd_kafka_new(producing ? RD_KAFKA_PRODUCER : RD_KAFKA_CONSUMER, conf, error, sizeof(error));
        if (!rk)
                die("client", error);
        topic = rd_kafka_topic_new(rk, load.topic, NULL);
        if (producing)
                produce(&load, rk, topic, &progress);
        else
                consume(&load, rk, topic, &progress);
        rd_kafka_topic_destroy(topic);
        rd_kafka_destroy(rk);
        return 0;
}
