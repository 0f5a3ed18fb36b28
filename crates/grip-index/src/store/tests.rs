use super::sql::sql;

grip_db::on_both_engines! {
    async fn every_statement_is_understood(test: TestDatabase) {
        grip_db::prepare_all(test.db(), sql::ALL).await.unwrap();
    }
}
